"""Writing files whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from regard.core.errors import CheckpointError

PARTIAL = ".partial"
"""Suffix of a file that is still being written; whoever finds one may delete it."""


def write_whole(path: Path, data: bytes | str) -> None:
    """Write under a temporary name, flush, then rename: readers see the old file or the new."""
    write_whole_by(path, lambda partial: _write(partial, data))


def write_whole_by(path: Path, write: Callable[[Path], None]) -> None:
    """As ``write_whole``, for those who write the file themselves."""
    partial = path.with_name(path.name + PARTIAL)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(partial)
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        reason = error.strerror or str(error)
        raise CheckpointError(
            f"cannot write {path}: {reason}; what was saved before is still there"
        ) from error


def _write(path: Path, data: bytes | str) -> None:
    if isinstance(data, str):
        data = data.encode()
    with path.open("wb") as file:
        file.write(data)
