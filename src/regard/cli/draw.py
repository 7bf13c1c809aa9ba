"""The verb ``draw``: a model as a picture, from its configuration."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.terminal import chosen_format, note, note_written, write

DrawFormat = StrEnum("DrawFormat", ["text", "svg", "png", "pdf", "json"])


def draw(
    name: Annotated[
        str, typer.Argument(metavar="RUN_OR_RECIPE", help="A run folder, a recipe, or a preset.")
    ],
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Of a recipe or a preset: override a setting."
        ),
    ] = None,
    asked: Annotated[
        DrawFormat | None, typer.Option("--format", help="Else as --out ends, or text.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="A file; else standard output.")] = None,
) -> None:
    """Draw a model from its configuration: blocks, shapes and parameter counts.

    A run is drawn as it is. A recipe or a preset has no data yet: its vocabulary is drawn as large
    as text.vocab_size lets it be.
    """
    from regard.runs.drawn import drawn
    from regard.visual.drawing import drawing_text
    from regard.visual.drawing_svg import drawing_svg
    from regard.visual.figures import figure, figure_form
    from regard.visual.svg import alone

    shown = chosen_format(DrawFormat, asked, out)
    figure_form(Path(f"model.{shown}"))  # or says what is missing
    drawing, assumed = drawn(name, settings or ())
    if assumed:
        told = ", ".join(f"{key}={size:,}" for key, size in assumed.items())
        note(f"there are no data yet: drawn with {told}")
    made: dict[DrawFormat, Callable[[], str | bytes]] = {
        DrawFormat.text: lambda: drawing_text(drawing) + "\n",
        DrawFormat.svg: lambda: alone(drawing_svg(drawing), fixed=True) + "\n",
        DrawFormat.png: lambda: figure(drawing_svg(drawing), "png"),
        DrawFormat.pdf: lambda: figure(drawing_svg(drawing), "pdf"),
        DrawFormat.json: lambda: (
            json.dumps({"parameters": drawing.count, **asdict(drawing)}, ensure_ascii=False) + "\n"
        ),
    }
    write(made[shown](), out)
    note_written(out)
