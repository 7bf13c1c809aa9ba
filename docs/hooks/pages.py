"""Pages that lie elsewhere in the repository, and sections that hold what is in their folder."""

from __future__ import annotations

import logging
import posixpath
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
LOG = logging.getLogger("mkdocs.hooks.pages")
"""What is said while the site is built."""
ELSEWHERE = {
    "results.md": "benchmarks/RESULTS.md",
    "changes.md": "CHANGELOG.md",
    "contributing.md": "CONTRIBUTING.md",
}
"""Page of the site → file of the repository."""
SEARCHED: Mapping[str, Mapping[str, Any]] = {
    "results.md": {"exclude": True},
    "changes.md": {"exclude": True},
    "tutorials/": {"boost": 2},
    "glossary.md": {"boost": 2},
}
"""How the address of a page begins → how it is found: a long log would bury all that explains."""
_EMPTY_CELL = re.compile(r"(?<=\|) *(?=\|)")
_LINK = re.compile(
    r"\[(?P<words>[^\]]+)\]\((?!https?:|#)(?P<to>[^)#\s]+)(?P<anchor>(?:#[^)\s]*)?)\)"
)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """In the navigation ``folder/*`` stands for the pages of a folder, if there are any."""
    folder = Path(config.docs_dir)
    config.nav = [one for one in (_expanded(entry, folder) for entry in config.nav or []) if one]
    return config


def _expanded(entry: Any, folder: Path) -> Any:
    """An entry of the navigation, or None if its folder holds no page, which is said.

    It is no warning: the site is built without notebooks, which take minutes, and builds strictly.
    """
    ((title, inside),) = entry.items()
    if not (isinstance(inside, str) and inside.endswith("/*")):
        return entry
    pages = sorted(path.relative_to(folder).as_posix() for path in folder.glob(f"{inside}.md"))
    if not pages:
        LOG.info(
            "%s is left out: %s has no pages; `make %s` makes them", title, inside, inside[:-2]
        )
        return None
    return {title: pages}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that lie elsewhere."""
    for page, source in ELSEWHERE.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        relinked = _LINK.sub(partial(_relinked, home=posixpath.dirname(source)), text)
        files.append(File.generated(config, page, content=filled(relinked)))
    return files


def filled(text: str) -> str:
    """Markdown whose tables say where nothing was measured.

    >>> filled("| a | | |")
    '| a | – | – |'
    """
    lines = text.split("\n")
    return "\n".join(_EMPTY_CELL.sub(" – ", x) if x.startswith("|") else x for x in lines)


def on_page_markdown(markdown: str, page: Page, **_more: Any) -> str:
    """Say how the page is to be found by a search."""
    for begin, how in SEARCHED.items():
        if page.file.src_uri.startswith(begin):
            page.meta["search"] = dict(how)
    return markdown


def _relinked(link: re.Match[str], home: str) -> str:
    """A link of the repository as the site has it: to one of its pages, else its words alone."""
    target = posixpath.normpath(posixpath.join(home, link["to"]))
    pages = {source: page for page, source in ELSEWHERE.items()}
    page = target.removeprefix("docs/") if target.startswith("docs/") else pages.get(target)
    return link["words"] if page is None else f"[{link['words']}]({page}{link['anchor']})"
