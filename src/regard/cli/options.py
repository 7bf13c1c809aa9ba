"""Options that several commands share."""

from __future__ import annotations

from enum import StrEnum
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

# How a language model writes: `generate` and `chat`.
Temperature = Annotated[
    float, typer.Option(help="Below 1 surer, above 1 bolder; 0 is the most probable each time.")
]
TopK = Annotated[int | None, typer.Option(help="Only so many most probable tokens.")]
TopP = Annotated[
    float | None, typer.Option(help="Only the most probable tokens that reach this share.")
]
Seed = Annotated[int | None, typer.Option(help="Decides what is drawn.")]
Stops = Annotated[
    list[str] | None, typer.Option("--stop", help="End before these words; may be given again.")
]


class Side(StrEnum):
    """Which end of a text may be cut off."""

    left = "left"
