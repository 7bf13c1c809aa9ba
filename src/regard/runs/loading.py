"""``regard.load``: a run folder as one object, whatever its task."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from regard.checkpoints.run_folder import RunFolder
from regard.core.registry import Registry
from regard.runs.kinds.answerer import load_answerer
from regard.runs.kinds.classifier import load_classifier
from regard.runs.kinds.embedder import load_embedder
from regard.runs.kinds.filler import load_filler
from regard.runs.kinds.translator import load_translator
from regard.runs.kinds.writer import load_writer
from regard.runs.opening import recipe_in

LOADERS: Registry[Callable[..., Any]] = Registry("task")
LOADERS.add("translation")(load_translator)
LOADERS.add("classification")(load_classifier)
LOADERS.add("similarity")(load_embedder)
LOADERS.add("masked")(load_filler)
LOADERS.add("answers")(load_answerer)
LOADERS.add("language")(load_writer)


def load(path: str | Path, *, device: str | None = None) -> Any:
    """Open a run folder: a ``Run`` that translates, or what its task makes of it.

    Nothing in it is executed.
    """
    return LOADERS[recipe_in(RunFolder(Path(path))).task](path, device=device)
