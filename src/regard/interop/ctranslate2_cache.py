"""The export of a run that an engine loads, kept in the run folder for the next time."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path

from regard.core.errors import CheckpointError
from regard.interop.ctranslate2_model import library
from regard.interop.exporting import export
from regard.models.base import SequenceModel
from regard.runs.kinds.translator import Run

FORMAT = "ctranslate2"
FOLDER = "engines"
"""In the run folder. Whoever finds it may delete it."""


@contextmanager
def exported(run: Run) -> Iterator[Path]:
    """A folder with the run as CTranslate2 reads it, there while the block lasts.

    It is written once for the same weights. Where the run folder cannot be written, it is made
    anew each time, elsewhere.
    """
    lasting = run.folder.path / FOLDER / f"{FORMAT}-{digest(run.model)}"
    if lasting.is_dir() or _kept(run, lasting):
        yield lasting
        return
    with tempfile.TemporaryDirectory() as passing:
        export(run, FORMAT, Path(passing))
        yield Path(passing)


def _kept(run: Run, folder: Path) -> bool:
    """Whether the export could be written there; what other weights left behind is deleted."""
    if not run.folder.path.is_dir():
        return False
    try:
        export(run, FORMAT, folder)
    except CheckpointError:
        return folder.is_dir()  # another process may have been faster
    for other in folder.parent.glob(f"{FORMAT}-*"):
        if other != folder:
            shutil.rmtree(other, ignore_errors=True)
    return True


def digest(model: SequenceModel) -> str:
    """A fingerprint of all that an export depends on."""
    hashed = blake2b(digest_size=8)
    hashed.update(f"{library().__version__} {model.config.model_dump_json()}".encode())
    for name, tensor in model.named_parameters():
        hashed.update(name.encode())
        hashed.update(tensor.detach().float().cpu().contiguous().numpy().data)
    return hashed.hexdigest()
