"""The code of a page of documentation: fenced blocks of sh and python, and files that it shows.

A block with a title is a file that the reader saves. ``<!-- not run: WHY -->`` before a block says
why it is not run. Pages of notebooks are left out: they are made by running them.
"""

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PAGES = (
    "README.md",
    *(
        str(path.relative_to(ROOT))
        for path in sorted((ROOT / "docs").rglob("*.md"))
        if path.parent.name != "notebooks"
    ),
)
_BLOCK = re.compile(
    r"^(?:<!-- not run: (?P<why>[^\n]+?) -->\n)?```(?P<language>sh|python|yaml)(?P<more>[^\n]*)\n"
    r"(?P<code>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
_TITLE = re.compile(r'title="([^"]+)"')


class Sample(NamedTuple):
    """A block of a page."""

    language: str
    code: str
    file: str | None
    """The name under which the reader saves it."""
    not_run: str | None
    """Why it is not run."""


def samples(page: str) -> list[Sample]:
    """The blocks of a page, in order."""
    return [
        Sample(
            one["language"], one["code"], next(iter(_TITLE.findall(one["more"])), None), one["why"]
        )
        for one in _BLOCK.finditer((ROOT / page).read_text(encoding="utf-8"))
    ]
