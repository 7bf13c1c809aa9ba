"""Writing files whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from regard.core.errors import CheckpointError

PARTIAL = ".partial"
"""Suffix of a file that is still being written; whoever finds one may delete it."""


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


def write_whole(path: Path, data: bytes | str) -> None:
    """Write under a temporary name, flush, then rename: readers see the old file or the new."""
    partial = path.with_name(path.name + PARTIAL)
    with telling(path):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with partial.open("wb") as file:
                file.write(data.encode() if isinstance(data, str) else data)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)
        except OSError:
            partial.unlink(missing_ok=True)
            raise
