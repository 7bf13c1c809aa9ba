"""``regard heads``: what each head does, measured."""

from __future__ import annotations

import io
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
from regard.core.errors import ConfigError
from regard.visual.report import Table

if TYPE_CHECKING:
    from rich.console import Console

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
    shown: Annotated[
        Format | None, typer.Option("--format", help="text: tables. svg: a map of the heads.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="A file; else standard output.")] = None,
    device: Device = None,
) -> None:
    """Measure what each head looks at, and what is lost without it.

    Each head is ablated once: the loss is that of all the sentences, BLEU that of the first 100.
    """
    from regard.core.files import write_whole
    from regard.runs.data import load_data
    from regard.runs.heads import head_measures
    from regard.runs.run import load

    if as_json and shown not in (None, Format.json):
        raise ConfigError(f"--json and --format {shown} are two formats: give one")
    wanted = Format.json if as_json else shown or Format.text
    run = load(path, device=device)
    data = load_data(run.recipe.data)
    for line in data.notes:
        note(line)
    with _progress() as tick:
        found = head_measures(run, data, split=split, n=sentences, tick=tick).as_json()
    if out is not None:
        write_whole(out, _text(found, WIDE) if wanted is Format.text else _shown(found, wanted))
    elif wanted is Format.text:
        print(_text(found, None if sys.stdout.isatty() else WIDE), end="")
    else:
        print(_shown(found, wanted), end="")


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


def _text(found: Mapping[str, Any], width: int | None) -> str:
    """Tables that fit the width, and beneath them how to read them."""
    from rich.console import Console

    from regard.visual.head_table import conditions, head_tables, meanings

    width = width or Console().width
    text = io.StringIO()
    console = Console(markup=False, highlight=False, width=width, file=text)
    for table in head_tables(found):
        console.print(f"\n{table.caption}")
        for piece in _pieces(table, width):
            _print(piece, console)
    console.print(f"\n{conditions(found)}\n{meanings()}\n{found['caveat']}")
    return text.getvalue()


def _pieces(table: Table, width: int) -> list[Table]:
    """The table in pieces that fit the width, each with the first column."""
    columns = [[name, *cells] for name, *cells in zip(table.header, *table.rows, strict=True)]
    sizes = [max(map(len, column)) + 2 for column in columns]
    pieces = [[0]]
    for i in range(1, len(columns)):
        if len(pieces[-1]) > 1 and sum(sizes[j] for j in [*pieces[-1], i]) > width:
            pieces.append([0])
        pieces[-1].append(i)
    return [
        Table("", [table.header[i] for i in some], [[row[i] for i in some] for row in table.rows])
        for some in pieces
    ]


def _print(table: Table, console: Console) -> None:
    from rich.table import Column
    from rich.table import Table as Grid

    columns = [Column(name, justify="right", no_wrap=True) for name in table.header]
    grid = Grid(*columns, box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for row in table.rows:
        grid.add_row(*row)
    console.print(grid)


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
