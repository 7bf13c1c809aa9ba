"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

RunPath = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")]
Device = Annotated[
    str | None,
    typer.Option(help="Where to compute: cpu, cuda, … By default a GPU if there is one."),
]
Beam = Annotated[int | None, typer.Option(min=1, help="Hypotheses kept open; 1 is greedy.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
