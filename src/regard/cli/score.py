"""``regard score``: how probable are given translations?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.notes import note_unknown
from regard.cli.options import Device, RunPath
from regard.core.errors import DataError

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
    from regard.runs.run import load

    run = load(path, device=device)
    rows = list(read_parallel(source, target))
    if not rows:
        raise DataError(f"{source} and {target} are empty; expected one sentence a line")
    note_unknown(word for line, _ in rows for word in run.unknown_words(line))
    for begin in range(0, len(rows), CHUNK):
        sources, targets = zip(*rows[begin : begin + CHUNK], strict=True)
        for value in run.score(sources, targets):
            print(f"{value:.6f}")
