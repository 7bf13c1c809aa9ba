"""Where models are written to."""

from __future__ import annotations

from pathlib import Path

from regard.core.errors import CheckpointError


def check_free(folder: Path) -> None:
    """Refuse a place where there is something already; an empty folder is nothing."""
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise CheckpointError(
            f"{folder} exists already; name a folder that is new or empty, or delete it first"
        )
