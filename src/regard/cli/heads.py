"""``regard heads``: what each head does, measured."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.notes import note
from regard.cli.options import Device, Json, RunPath
from regard.cli.writing import chosen_format, write
from regard.core.errors import ConfigError

if TYPE_CHECKING:
    from regard.runs.heads import Tick

WIDE = 100
"""Of a table in a file; in a terminal it fits the terminal."""


class Format(StrEnum):
    """How the measures are shown."""

    text = "text"
    json = "json"
    svg = "svg"
    csv = "csv"
    tex = "tex"


def heads(
    path: RunPath,
    split: Annotated[str, typer.Option(help="A split of the run's own data.")] = "valid",
    sentences: Annotated[int, typer.Option(min=1, help="So many are measured.")] = 200,
    as_json: Json = False,
    asked: Annotated[
        Format | None,
        typer.Option("--format", help="svg: a map of the heads; else as --out ends, or text."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="A file; else standard output.")] = None,
    device: Device = None,
) -> None:
    """Measure what each head looks at, and what is lost without it.

    Each head is ablated once: the loss is that of all the sentences, BLEU that of the first 100.
    """
    from regard.runs.data import load_data
    from regard.runs.heads import head_measures
    from regard.runs.run import load
    from regard.visual.head_text import heads_text

    if as_json and asked not in (None, Format.json):
        raise ConfigError(f"--json and --format {asked} are two formats: give one")
    wanted = chosen_format(Format, Format.json if as_json else asked, out)
    run = load(path, device=device)
    data = load_data(run.recipe.data)
    for line in data.notes:
        note(line)
    with _progress() as tick:
        found = head_measures(run, data, split=split, n=sentences, tick=tick).as_json()
    if wanted is Format.text:
        fits = out is None and sys.stdout.isatty()
        write(heads_text(found, _width() if fits else WIDE), out)
    else:
        write(_shown(found, wanted), out)


def _shown(found: Mapping[str, Any], wanted: Format) -> str:
    from regard.visual.head_map import head_map
    from regard.visual.head_table import all_heads_table, plain_table
    from regard.visual.tables import csv_table, latex_table

    if wanted is Format.json:
        return json.dumps(found, ensure_ascii=False) + "\n"
    if wanted is Format.svg:
        return head_map(found) + "\n"
    if wanted is Format.csv:
        return csv_table(plain_table(found))
    return latex_table(all_heads_table(found))


def _width() -> int:
    from rich.console import Console

    return Console().width


@contextmanager
def _progress() -> Iterator[Tick | None]:
    """A bar where a person watches: ablating many heads takes its time."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("ablating heads")
        yield lambda done, of: progress.update(task, completed=done, total=of)
