"""Writing folders whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from regard.core.errors import CheckpointError
from regard.core.files import PARTIAL, telling


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """A folder to be filled inside the block; at its end it stands at ``path``, or nowhere.

    There may be nothing at ``path`` but an empty folder.
    """
    with telling(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(suffix=PARTIAL, prefix=f"{path.name}.", dir=path.parent))
        try:
            inside = partial / path.name  # mkdtemp lets nobody else in; this is for all
            inside.mkdir()
            yield inside
            for file in inside.iterdir():
                _flush(file)
            inside.replace(path)
        except OSError as error:
            _refuse_unread(error, partial)
            raise
        finally:
            shutil.rmtree(partial, ignore_errors=True)


def _refuse_unread(error: OSError, partial: Path) -> None:
    """What is wrong with a file outside the folder is wrong with what was read to fill it."""
    names = [name for name in (error.filename, error.filename2) if name is not None]
    if names and not any(Path(os.fsdecode(name)).is_relative_to(partial) for name in names):
        raise CheckpointError(f"cannot read {names[0]}: {error.strerror}") from error


def _flush(file: Path) -> None:
    with file.open("rb") as written:
        os.fsync(written.fileno())
