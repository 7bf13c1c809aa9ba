"""Whether a run has data of its own: weights of others come without."""

from __future__ import annotations

from pathlib import Path

from regard.checkpoints.run_folder import RunFolder
from regard.core.errors import DataError
from regard.data.lines import present
from regard.data.settings import DataSettings


def check_data(folder: RunFolder, data: DataSettings, remedy: str) -> None:
    """Refuse a run that was never trained here and names files that are nowhere.

    Whoever names a world or a folder has data; what that lacks is told elsewhere.
    """
    if folder.metrics.exists() or data.world is not None or data.folder is not None:
        return
    files = [data.train] if isinstance(data.train, str) else data.train or ()
    if not any(present(Path(name)) for name in files):
        raise DataError(f"the run {folder.path} was imported and has no data of its own; {remedy}")
