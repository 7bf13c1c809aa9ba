"""Files of lines, cut into parts that many processes share; who has claimed which; whole results.

A part is fixed by line numbers alone, so that whoever answers it, and beside whom, changes nothing.
Files are never read whole: they may be larger than memory. No tensors here.
"""

from __future__ import annotations

import glob
import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from regard.core.errors import DataError

LONGEST = 2**24
"""Bytes of a line; a longer one is not text, and no memory is spent on it."""
_BOM = b"\xef\xbb\xbf"
_PACKED = (b"\x1f\x8b", b"\xfd7zXZ", b"PK\x03\x04", b"(\xb5/\xfd")


@dataclass(frozen=True, slots=True)
class Part:
    """Some lines of a file that are answered together."""

    path: Path
    """The file that they are in."""
    start: int
    """The byte at which the first of them begins."""
    before: int
    """Lines of the file before them."""
    n_lines: int
    n: int
    """Its number among the parts of all files."""
    answers: Path
    """Where its answers go."""
    whole: Path
    """Where those of the whole file go; when they are there, the part's may be gone."""

    @property
    def notes(self) -> Path:
        """What is to be told of its lines, where there is something."""
        return self.answers.with_suffix(".notes")

    @property
    def claim(self) -> Path:
        """Locked by who answers it."""
        return self.answers.with_suffix(".claim")

    @property
    def lines(self) -> str:
        """Which they are, in words."""
        return f"{self.path}, lines {self.before + 1:,} to {self.before + self.n_lines:,}"

    def done(self) -> bool:
        """Whether it is answered."""
        return self.answers.exists() or self.whole.exists()

    def read(self, size: int) -> Iterator[list[str]]:
        """Its lines in lists of at most ``size``."""
        found = 0
        with _telling(self.path), self.path.open("rb") as file:
            file.seek(self.start)
            raw = islice(_lines(file, self.path, self.before), self.n_lines)
            numbered = enumerate(raw, start=self.before + 1)
            while some := [_decoded(one, self.path, n) for n, one in islice(numbered, size)]:
                found += len(some)
                yield some
        if found < self.n_lines:
            raise DataError(f"{self.path} was cut short while it was read; begin with a new --out")


@dataclass(frozen=True, slots=True)
class LineFile:
    """A file of lines, as it was when it was looked through."""

    path: Path
    """Absolute."""
    digest: str
    """SHA-256 of its bytes."""
    n_lines: int
    starts: tuple[int, ...]
    """Bytes at which its parts begin."""
    stamp: tuple[int, int]
    """Its size and time of change."""

    def changed(self) -> bool:
        """Whether somebody has written to it since."""
        return _stamp(self.path) != self.stamp


def matching(patterns: Sequence[str]) -> list[Path]:
    """The files that names and globs mean, absolute; those of a glob in order of their names."""
    found: list[Path] = []
    for pattern in patterns:
        globbed = map(Path, sorted(glob.glob(pattern, recursive=True)))  # noqa: PTH207
        files = [one for one in globbed if not one.is_dir()]
        if Path(pattern).exists():
            files = [Path(pattern)]  # whatever its name looks like
        if not files:
            raise DataError(f"--in {pattern!r} names no file; give a file, or a glob in quotes")
        found += [one.absolute() for one in files]
    for path in found:
        if path.is_dir():
            raise DataError(f"--in {path} is a folder; give its files, such as '{path}/*.txt'")
        if not path.is_file():
            raise DataError(f"--in {path} is not a plain file, and must be read more than once")
    return found


def looked_through(path: Path, part_lines: int) -> LineFile:
    """Read a file once: its digest, and where its parts begin; what is not text is refused."""
    digest, starts, at, n = hashlib.sha256(), list[int](), 0, 0
    with _telling(path), path.open("rb") as file:
        stamp = _stamp(path)
        for n, raw in enumerate(_lines(file, path, 0), start=1):
            _decoded(raw, path, n)
            if (n - 1) % part_lines == 0:
                starts.append(at)
            at += len(raw)
            digest.update(raw)
    return LineFile(path, digest.hexdigest(), n, tuple(starts), stamp)


def file_digest(path: Path) -> str:
    """SHA-256 of any file's bytes."""
    with _telling(path), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _lines(file: BinaryIO, path: Path, before: int) -> Iterator[bytes]:
    """Lines with their ends, as bytes."""
    for number, raw in enumerate(iter(partial(file.readline, LONGEST + 1), b""), start=before + 1):
        if len(raw) > LONGEST:
            raise DataError(
                f"{path}, line {number}: a line of more than {LONGEST >> 20} MiB; is this a text "
                "file?"
            )
        yield raw


def _decoded(raw: bytes, path: Path, number: int) -> str:
    line = raw.removeprefix(_BOM) if number == 1 else raw
    try:
        return line.decode("utf-8").removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError as error:
        packed = number == 1 and raw.startswith(_PACKED)
        remedy = "unpack it first" if packed else "save it as UTF-8"
        raise DataError(f"{path}, line {number}: not UTF-8 ({error.reason}); {remedy}") from None


def _stamp(path: Path) -> tuple[int, int]:
    with _telling(path):
        facts = path.stat()
    return facts.st_size, facts.st_mtime_ns


@contextmanager
def _telling(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error
