"""``regard score``: how probable are given translations?"""

from __future__ import annotations

from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.notes import note_unknown
from regard.cli.options import Device, RunPath
from regard.core.errors import DataError

if TYPE_CHECKING:
    from regard.runs.kinds.translator import Run

CHUNK = 4096


def score(
    path: RunPath,
    source: Annotated[Path, typer.Option(help="Source sentences, one a line.")],
    target: Annotated[Path, typer.Option(help="Their translations, one a line.")],
    device: Device = None,
) -> None:
    """Print the log-probability of each target line given its source line.

    Natural logarithm, the end token included, no length penalty.
    """
    from regard.data.lines import read_parallel
    from regard.runs.kinds.translator import load_translator

    run = load_translator(path, device=device)
    rows = list(read_parallel(source, target))
    if not rows:
        raise DataError(f"{source} and {target} are empty; expected one sentence a line")
    note_unknown(word for line, _ in rows for word in run.unknown_words(line))
    short = list(takewhile(lambda row: run.fits(*row), rows))
    for begin in range(0, len(short), CHUNK):
        sources, targets = zip(*short[begin : begin + CHUNK], strict=True)
        for value in run.score(sources, targets):
            print(f"{value:.6f}")
    if len(short) < len(rows):
        raise DataError(_too_long(run, (source, target), rows[len(short)], len(short) + 1))


def _too_long(run: Run, files: tuple[Path, Path], row: tuple[str, str], number: int) -> str:
    """Which line of which file is too long, and what to do."""
    tokenizers = (run.tokenizers.source, run.tokenizers.target)
    encoded = zip(files, tokenizers, row, strict=True)
    lengths = [(len(tokenizer.encode(line)) + 1, path) for path, tokenizer, line in encoded]
    n_tokens, path = max(lengths, key=lambda one: one[0])
    return (
        f"{path}:{number}: {n_tokens} tokens with the end token, but the model's learned positions "
        f"know {run.model.config.longest}; shorten the line, or train with a larger model.max_len "
        "or sinusoidal positions"
    )
