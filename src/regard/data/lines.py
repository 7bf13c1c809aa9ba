"""Lines of text files, plain or packed with gzip or xz.

Only ``\\n`` ends a line (with or without ``\\r`` before it): a form feed or U+2028 is part of a
sentence. Whatever is wrong with a file is told as ``file:line: finding; remedy``.
"""

from __future__ import annotations

import errno
import gzip
import lzma
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import IO

from regard.core.errors import DataError
from regard.core.registry import did_you_mean

_BOM = b"\xef\xbb\xbf"
_FOREIGN = {
    b"\xff\xfe": "it looks like UTF-16; save it as UTF-8",
    b"\xfe\xff": "it looks like UTF-16; save it as UTF-8",
    b"\x1f\x8b": "it looks like gzip; let its name end in .gz",
    b"\xfd7zXZ": "it looks like xz; let its name end in .xz",
}
PACKED = (".gz", ".xz")
LONGEST = 2**24
"""Bytes of a line; a longer one is not text, and no memory is spent on it."""
_DAMAGED = (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile)


def read_lines(path: Path) -> Iterator[str]:
    """Lines without their ends, decoded one at a time so that a bad one can be named."""
    number = 0
    with _telling(path, lambda: f" after line {number}"), _open(path) as file:
        for number, raw in enumerate(iter(partial(file.readline, LONGEST + 1), b""), start=1):
            yield _decoded(raw, path, number)


def read_bytes(path: Path) -> bytes:
    """All of a file that is one thing and no list of lines."""
    with _telling(path), _open(path) as file:
        return file.read()


@contextmanager
def _telling(path: Path, place: Callable[[], str] = lambda: "") -> Iterator[None]:
    """Whatever goes wrong with a file inside is told in one sentence."""
    try:
        yield
    except _DAMAGED as error:
        raise DataError(
            f"{path}: packed data is cut short or damaged{place()}; fetch it again"
        ) from error
    except FileNotFoundError as error:
        raise DataError(not_found(path)) from error
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            text = f"'{str(path)[:40]}…' is too long for the name of a file"
            raise DataError(f"{text}; give a text itself on standard input") from error
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error


def present(path: Path) -> Path | None:
    """The file or folder or, where only that is there, the file packed; None where neither is."""
    candidates = (path, *(path.with_name(path.name + suffix) for suffix in PACKED))
    return next((one for one in candidates if one.exists()), None)


def read_parallel(source: Path, target: Path) -> Iterator[tuple[str, str]]:
    """Line by line from two files, which must have equally many."""
    rows = enumerate(zip_longest(read_lines(source), read_lines(target)), start=1)
    for number, (left, right) in rows:
        if left is not None and right is not None:
            yield left, right
            continue
        short, long = (source, target) if left is None else (target, source)
        if number == 1:
            raise DataError(f"{short}: empty, but {long} is not")
        n_long = number + sum(1 for _ in rows)
        surplus = excerpt(left or right or "")
        raise DataError(
            f"files of unequal length: {short} ends after line {number - 1}, {long} after line "
            f"{n_long}; line {number} of {long} ({surplus}) is the first without a partner"
        )


def _open(path: Path) -> IO[bytes] | gzip.GzipFile | lzma.LZMAFile:
    suffix = path.suffix.lower()
    if suffix == ".gz":
        return gzip.open(path, "rb")
    return lzma.open(path, "rb") if suffix == ".xz" else path.open("rb")


def _decoded(raw: bytes, path: Path, number: int) -> str:
    if len(raw) > LONGEST:
        raise DataError(
            f"{path}:{number}: a line of more than {LONGEST >> 20} MiB; is this a text file?"
        )
    line = raw.removeprefix(_BOM) if number == 1 else raw
    try:
        return line.decode("utf-8").removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError as error:
        known = [hint for magic, hint in _FOREIGN.items() if number == 1 and raw.startswith(magic)]
        remedy = known[0] if known else "save the file as UTF-8"
        byte, column = line[error.start], error.start + 1
        raise DataError(
            f"{path}:{number}: not UTF-8 (byte {byte:#04x} at column {column}); {remedy}"
        ) from None


def not_found(path: Path) -> str:
    """What to say of a file that is not there, with the nearest name that is."""
    folder = path.parent
    if not folder.is_dir():
        return f"no file {path}: there is no folder {folder.absolute()}"
    hint = did_you_mean(path.name, (entry.name for entry in folder.iterdir()))
    return f"no file {path.name} in {folder.absolute()}{hint}"


def excerpt(line: str) -> str:
    """The beginning of a line, to be quoted in a message."""
    text = line.strip()
    return "it is empty" if not text else repr(text if len(text) <= 40 else text[:40] + "…")
