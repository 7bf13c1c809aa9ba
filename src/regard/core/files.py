"""Reading files with clear errors, and writing them whole or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from regard.core.errors import CheckpointError

PARTIAL = ".partial"
"""Suffix of a file that is still being written; whoever finds one may delete it."""


def read_text(path: Path) -> str:
    """The text of a file of a model or a run."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{path} is damaged: it is no UTF-8 ({error})") from error


def read_json(path: Path, kind: type = dict) -> Any:
    """The object, or the list, in a JSON file."""
    try:
        found = json.loads(read_text(path))
    except (ValueError, RecursionError) as error:  # no JSON, or lists without end
        raise CheckpointError(f"{path} is damaged: {error}") from error
    if not isinstance(found, kind):
        wanted = "an object" if kind is dict else "a list"
        raise CheckpointError(f"{path} must hold {wanted}, and holds {type(found).__name__}")
    return found


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
