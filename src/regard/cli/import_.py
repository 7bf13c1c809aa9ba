"""``regard import``: weights that others made, as a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.notes import note


def import_(
    source: Annotated[Path, typer.Argument(metavar="SOURCE", help="A folder, or a .gguf file.")],
    out: Annotated[Path, typer.Option(help="The run folder to write, new or empty.")],
    direction: Annotated[
        str | None,
        typer.Option(help="Languages of a translator, such as de-en, if it does not tell them."),
    ] = None,
) -> None:
    """Make a run of a model in a format of the ecosystem.

    Folders in the layout of Hugging Face and of CTranslate2. The run is like any other: translate,
    explain, heads, serve. To train on, give its config.yaml to `regard train` with your data.train,
    and train.init=RUN.
    """
    from regard.interop.importing import import_model, kind_of

    for line in import_model(source, out, direction):
        note(line)
    print(f"{out}: {kind_of(source)}")
