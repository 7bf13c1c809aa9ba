"""Whether a run has data of its own: weights of others come without."""

from __future__ import annotations

from pathlib import Path

from regard.checkpoints.run_folder import RunFolder
from regard.core.errors import DataError
from regard.data.lines import present
from regard.data.settings import DataSettings

NOBODYS = ("train.txt", "train.tsv")
"""What the recipe of an imported run names; a file of that name may lie here by chance."""


def check_data(folder: RunFolder, data: DataSettings, remedy: str) -> None:
    """Refuse a run that has no data."""
    if not has_data(folder, data):
        raise DataError(f"the run {folder.path} was imported and has no data of its own; {remedy}")


def has_data(folder: RunFolder, data: DataSettings) -> bool:
    """Not so where a run was never trained here, and names files that are nowhere, or nobody's.

    Whoever names a world or a folder has data; what that lacks is told elsewhere.
    """
    if folder.metrics.exists() or data.world is not None or data.folder is not None:
        return True
    files = [data.train] if isinstance(data.train, str) else data.train or ()
    return any(present(Path(name)) for name in files if name not in NOBODYS)
