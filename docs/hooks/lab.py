"""Verdicts of the lab: a line ``<!-- lab: NAME -->`` becomes finding, picture and command.

What is shown was measured by ``make figures`` and lies in docs/figures/lab; nothing is run here.
"""

from __future__ import annotations

import json
import posixpath
import re
from functools import partial
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from regard import lab

RESULTS = Path(__file__).parents[1] / "figures" / "lab"
ALL = "lectures/claims.md"
_MARK = re.compile(r"^<!-- lab: (\w+) -->$", re.MULTILINE)
_HEAD = """# All claims

What the lectures claim, each put to the test by `regard lab NAME`. A verdict comes from what was
measured and can be false. `regard lab all --out lab` runs them all and writes a page for a wall.

"""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the page of all claims, in the order in which a course would show them."""
    parts = [f"## {name}\n\n<!-- lab: {name} -->\n" for name in lab.NAMES]
    files.append(File.generated(config, ALL, content=_HEAD + "\n".join(parts)))
    return files


def on_page_markdown(markdown: str, page: Page, **_more: Any) -> str:
    """Put results in the place of their marks."""
    return _MARK.sub(partial(_result, page=page.file.src_uri), markdown)


def _result(mark: re.Match[str], page: str) -> str:
    name = mark[1]
    if not (RESULTS / f"{name}.json").exists():
        raise PluginError(f"{page} shows the claim {name}, which `make figures` has not measured")
    facts = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    kind, word = ("success", "Holds") if facts["verdict"] else ("failure", "Does not hold")
    home = posixpath.relpath("figures/lab", posixpath.dirname(page))
    pictures = sorted(RESULTS.glob(f"{name}.svg")) + sorted(RESULTS.glob(f"{name}-?.svg"))
    shown = "\n\n".join(f"![{facts['claim']}]({home}/{one.name})" for one in pictures)
    said = f"**Claim:** {facts['claim']}\n\n**Measured:** {facts['finding']}"
    body = f"{said}\n\n{shown}\n\n```sh\nregard lab {name}\n```"
    lines = [f"    {line}" if line else "" for line in body.split("\n")]
    return "\n".join([f'!!! {kind} "{word}"', "", *lines])
