"""A learner's file, a Python file or a notebook, as pieces of code that know where they stood."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.core.errors import DataError
from regard.core.files import parse_json, read_text
from regard.practice.handout import MARK, SUFFIXES

MOST_BYTES = 2**22
"""Of a file; a notebook may hold pictures."""
_MARKED = re.compile(rf"^{re.escape(MARK)}\s*(\S+)", re.MULTILINE)
_MAGIC = re.compile(r"^[%!].*$", re.MULTILINE)
"""A line for the notebook's kernel, which is not Python."""


@dataclass(frozen=True, slots=True)
class Code:
    """A file, or a cell of a notebook."""

    label: str
    """Where it stands: ``mine.py``, or ``mine.ipynb, cell 2``."""
    text: str

    def line(self, number: int) -> str:
        """A line of it, from 1."""
        lines = self.text.splitlines()
        return lines[number - 1].strip() if 0 < number <= len(lines) else ""


def read_submission(path: Path) -> list[Code]:
    """The code of a learner's file."""
    if path.suffix not in SUFFIXES:
        raise DataError(f"{path} is neither a .py nor an .ipynb file")
    text = read_text(path, MOST_BYTES)
    if path.suffix == ".py":
        return [Code(path.name, text)]
    try:
        cells = [*_code_cells(parse_json(text))]
    except (ValueError, LookupError, TypeError):
        raise DataError(f"{path} is not a notebook of version 4") from None
    return [
        Code(f"{path.name}, cell {number}", _MAGIC.sub("", cell))
        for number, cell in enumerate(cells, start=1)
    ]


def _code_cells(book: Any) -> Iterator[str]:
    for cell in book["cells"]:
        if cell["cell_type"] == "code":
            yield "".join(cell["source"])


def exercise_of(codes: list[Code]) -> str | None:
    """The exercise that a file names, or None."""
    for code in codes:
        if found := _MARKED.search(code.text):
            return found[1]
    return None
