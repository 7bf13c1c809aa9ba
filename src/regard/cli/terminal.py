"""Lines from standard input as they arrive, and notes on standard error."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable, Iterator
from io import BufferedReader
from typing import cast

from regard.core.errors import DataError
from regard.core.numbers import counted

# ------------------------------------------------------------------ notes


def note(text: str) -> None:
    """One line."""
    print(f"regard: {text}", file=sys.stderr)


def note_unknown(words: Iterable[str]) -> None:
    """Name the first of the words that a model has never seen, if there are any."""
    unknown = list(dict.fromkeys(words))
    if unknown:
        shown = ", ".join(unknown[:10]) + (", …" if len(unknown) > 10 else "")
        note(f"{counted(len(unknown), 'unknown word')} read as <unk>: {shown}")


# ------------------------------------------------------------------ lines as they arrive

_ONCE = 1 << 20
"""Bytes that are asked for at once; a pipe or a keyboard gives what it has."""


class ArrivingLines(Iterator[str]):
    """Each line without its end; only a newline ends one. A byte-order mark is no text."""

    def __init__(self) -> None:
        self._arrived: deque[bytes] = deque()
        self._begun: list[bytes] = []
        """Pieces of a line whose end has not arrived."""
        self._number = 0

    @property
    def waits(self) -> bool:
        """Whether the next line has not arrived yet, as far as we have read."""
        return not self._arrived

    def __next__(self) -> str:
        while not self._arrived:
            self._read()
        self._number += 1
        try:
            line = self._arrived.popleft().decode("utf-8").removesuffix("\r")
        except UnicodeDecodeError as error:
            where = f"standard input, line {self._number}"
            raise DataError(f"{where}: not UTF-8 ({error.reason})") from None
        return line.removeprefix("\ufeff") if self._number == 1 else line

    def _read(self) -> None:
        """Take what is there, or wait for it."""
        block = cast("BufferedReader", sys.stdin.buffer).read1(_ONCE)
        if not block and not self._begun:
            raise StopIteration
        first, *others = (block or b"\n").split(b"\n")  # the last line may lack its end
        self._begun.append(first)
        if others:
            self._arrived.append(b"".join(self._begun))
            *whole, rest = others
            self._arrived.extend(whole)
            self._begun = [rest] if rest else []


def stdin_lines() -> ArrivingLines:
    """The lines of standard input."""
    return ArrivingLines()


def chunks(lines: Iterator[str], size: int) -> Iterator[list[str]]:
    """Lists of at most ``size`` lines, so that memory stays bounded.

    A list ends where the next line would have to be waited for, so that whoever writes a line and
    waits for the answer gets it.
    """
    chunk: list[str] = []
    for line in lines:
        chunk.append(line)
        if len(chunk) == size or (isinstance(lines, ArrivingLines) and lines.waits):
            yield chunk
            chunk = []
    if chunk:
        yield chunk
