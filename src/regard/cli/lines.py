"""Lines from standard input."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from regard.core.errors import DataError


def stdin_lines() -> Iterator[str]:
    """Each line without its end; only a newline ends one. A byte-order mark is no text."""
    for number, raw in enumerate(sys.stdin.buffer, start=1):
        try:
            line = raw.decode("utf-8").removesuffix("\n").removesuffix("\r")
            yield line.removeprefix("\ufeff") if number == 1 else line
        except UnicodeDecodeError as error:
            raise DataError(f"standard input, line {number}: not UTF-8 ({error.reason})") from None


def chunks(lines: Iterator[str], size: int) -> Iterator[list[str]]:
    """Lists of at most ``size`` lines, so that memory stays bounded."""
    chunk: list[str] = []
    for line in lines:
        chunk.append(line)
        if len(chunk) == size:
            yield chunk
            chunk = []
    if chunk:
        yield chunk
