"""A run in the formats of others: ``regard export``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import tokenizers

from regard.checkpoints.interop.ctranslate2_model import write_ctranslate2
from regard.checkpoints.interop.folders import whole_folder
from regard.core.errors import CheckpointError
from regard.core.registry import Registry
from regard.runs.run import Run
from regard.runs.tokenizers import SHARED, SOURCE, TARGET

FORMATS: Registry[Callable[[Run, Path], None]] = Registry("export format")
"""What writes a run into an empty folder."""


def export(run: Run, to: str, folder: Path) -> None:
    """Write a run in a format, into a folder that is new or empty; whole or not at all."""
    write = FORMATS[to]
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise CheckpointError(
            f"{folder} exists already; name a folder that is new or empty, or delete it first"
        )
    with whole_folder(folder) as inside:
        write(run, inside)


@FORMATS.add("ctranslate2")
def _ctranslate2(run: Run, folder: Path) -> None:
    """With the tokenizers beside the model: CTranslate2 reads tokens, not text."""
    run.tokenizers.save(folder)
    source, target = (SHARED, SHARED) if run.tokenizers.shared else (SOURCE, TARGET)
    write_ctranslate2(
        run.model,
        folder,
        source_tokens=_tokens(folder / source),
        target_tokens=_tokens(folder / target),
    )


def _tokens(path: Path) -> list[str]:
    """All tokens of a tokenizer's file, by id."""
    ids = tokenizers.Tokenizer.from_file(str(path)).get_vocab()
    return sorted(ids, key=lambda token: ids[token])
