"""Reading files with clear errors and within bounds, and writing them whole or not at all.

A file of a run or a model may come from anybody. Only regular files are opened, a size is looked
at before it is read, and whatever is wrong inside becomes one error of a bounded length.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from regard.core.errors import CheckpointError, RegardError
from regard.core.numbers import told

PARTIAL = ".partial"
"""Suffix of a file that is still being written; whoever finds one may delete it."""
MOST_BYTES = 2**30
"""Of a text file that is read whole."""
DEEPEST = 100
"""Levels of lists and objects in one another."""
LONGEST_NUMBER = 100
"""Signs of a number: no setting and no count needs more, and Python cannot read some of those."""
_BOM = "\ufeff"


def check_regular(path: Path) -> None:
    """Refuse a pipe or a device, which may never end; what is missing is told by who opens it."""
    if path.exists() and not path.is_file():
        raise CheckpointError(f"cannot read {path}: it is not a regular file")


def read_bytes(path: Path, most: int = MOST_BYTES) -> bytes:
    """All bytes of a regular file; a pipe or a device, which may never end, is refused."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise CheckpointError(f"cannot read {path}: it is not a regular file")
            if found.st_size > most:
                raise CheckpointError(
                    f"cannot read {path}: it has {found.st_size:,} bytes, and such a file may have "
                    f"{most:,}"
                )
            return file.read(found.st_size)
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror}") from error


def read_text(path: Path, most: int = MOST_BYTES) -> str:
    """The text of a file of a model or a run, without the mark that some editors begin it with."""
    try:
        return read_bytes(path, most).decode("utf-8").removeprefix(_BOM)
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{path} is damaged: it is not UTF-8 ({told(error)})") from error


def read_json(path: Path, kind: type = dict) -> Any:
    """The object, or the list, in a JSON file."""
    try:
        found = parse_json(read_text(path))
    except ValueError as error:
        raise CheckpointError(f"{path} is damaged: {told(error)}") from error
    if not isinstance(found, kind):
        wanted = "an object" if kind is dict else "a list"
        raise CheckpointError(f"{path} must hold {wanted}, and holds {type(found).__name__}")
    return found


def parse_json(text: str) -> Any:
    """Plain data from JSON; a ValueError where it is none, too deep or has a number too long."""
    try:
        found = json.loads(text, parse_int=_whole_number)
    except RecursionError:
        raise ValueError("its lists and objects lie too deep in one another") from None
    check_depth(found)
    return found


@contextmanager
def damage_told(path: Path) -> Iterator[None]:
    """Inside the block, data of a file is used as we write it; where it is not so, that is told."""
    try:
        yield
    except RegardError:
        raise
    except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError) as error:
        raise CheckpointError(
            f"{path} is damaged: {type(error).__name__}, {told(error)}"
        ) from error


def check_depth(found: Any) -> None:
    """A ValueError where lists and objects lie more than ``DEEPEST`` deep in one another."""
    level = [found] if isinstance(found, dict | list) else []
    for _ in range(DEEPEST):
        inside = [one.values() if isinstance(one, dict) else one for one in level]
        level = [x for one in inside for x in one if isinstance(x, dict | list)]
        if not level:
            return
    raise ValueError(f"its lists and objects lie more than {DEEPEST} deep in one another")


def _whole_number(digits: str) -> int:
    if len(digits) > LONGEST_NUMBER:
        raise ValueError(f"a number of {len(digits):,} digits is not a number that anything has")
    return int(digits)


@contextmanager
def telling(path: Path) -> Iterator[None]:
    """Inside the block, what the disk refuses becomes one clear error about ``path``."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise CheckpointError(
            f"cannot write {path}: {reason}; what was saved before is still there"
        ) from error


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A file to fill inside the block; readers of ``path`` see the old one or the new.

    It has a temporary name until it is flushed, and is deleted where the disk refuses. A link is
    followed.
    """
    home = Path(os.path.realpath(path))
    partial = home.with_name(home.name + PARTIAL)
    with telling(path):
        try:
            home.parent.mkdir(parents=True, exist_ok=True)
            with partial.open("wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            partial.replace(home)
        except OSError:
            partial.unlink(missing_ok=True)
            raise


def write_whole(path: Path, data: bytes | str) -> None:
    """Write under a temporary name, flush, then rename: readers see the old file or the new.

    A pipe or a device is written to and never replaced, and a link is followed.
    """
    raw = data.encode() if isinstance(data, str) else data
    if not path.name or path.is_dir():
        raise CheckpointError(f"cannot write {path}: it is a folder; name a file in it")
    if path.exists() and not path.is_file():
        with telling(path):
            path.write_bytes(raw)
        return
    with whole_file(path) as file:
        file.write(raw)
