"""What commands print on a terminal: texts of files, models and strangers, none of them obeyed.

Where standard output or standard error is a terminal, control characters are replaced on their way
to it; in a pipe or a file nothing is changed. Tables and bars, which need colours and the cursor,
are drawn by rich, which writes past this; their texts are made plain where they are drawn.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any, TextIO

from regard.core.plain import plain


class PlainStream:
    """A terminal to which only plain text can be written; in all else as it is."""

    def __init__(self, terminal: TextIO) -> None:
        self._terminal = terminal
        self.rich_proxied_file = terminal
        """Where rich writes: it looks for this name."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._terminal, name)

    def write(self, text: str) -> int:
        """Without control characters."""
        return self._terminal.write(plain(text))

    def writelines(self, lines: Iterable[str]) -> None:
        """Each without control characters."""
        for line in lines:
            self.write(line)


def make_terminals_plain() -> None:
    """From now on, where standard output or standard error is a terminal, print plain text."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is not None and not isinstance(stream, PlainStream) and stream.isatty():
            setattr(sys, name, PlainStream(stream))
