"""``regard heads``: what each head does, measured."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
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
    from regard.runs.heads.measures import HeadMeasures
    from regard.runs.heads.worth import Tick

WIDE = 100
"""Of a table in a file; in a terminal it fits the terminal."""


PAIRS = "heads of a translator are measured on pairs of sentences: train it on with some"
"""What to do where there are none."""


class Format(StrEnum):
    """How the measures are shown."""

    text = "text"
    json = "json"
    svg = "svg"
    csv = "csv"
    tex = "tex"


def heads(
    path: RunPath,
    split: Annotated[
        str | None, typer.Option(help="A split of the run's own data; by default valid.")
    ] = None,
    texts: Annotated[
        Path | None,
        typer.Option(help="Texts to measure on instead, one a line, but for translators."),
    ] = None,
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

    Each head is ablated once: scores are those of all the sentences, BLEU that of the first 100.
    Texts have no labels: where a run's scores need some, it is told how far their vectors turn.
    """
    from regard.runs.loading import load
    from regard.visual.head_text import heads_text

    if as_json and asked not in (None, Format.json):
        raise ConfigError(f"--json and --format {asked} are two formats: give one")
    wanted = chosen_format(Format, Format.json if as_json else asked, out)
    if texts is not None and split is not None:
        raise ConfigError("--split is of the run's own data and --texts names others: give one")
    run = load(path, device=device)
    with _progress() as tick:
        found = _measured(run, split or "valid", texts, sentences, tick).as_json()
    if wanted is Format.text:
        fits = out is None and sys.stdout.isatty()
        write(heads_text(found, _width() if fits else WIDE), out)
    else:
        write(_shown(found, wanted), out)


def _measured(run: Any, split: str, texts: Path | None, n: int, tick: Tick | None) -> HeadMeasures:
    """On the run's own data, or on texts."""
    from regard.data.plain_texts import read_texts
    from regard.runs.data import load_data
    from regard.runs.heads.measures import head_measures, measured, text_measures
    from regard.runs.heads.subjects import own_subject
    from regard.runs.own_data import check_data

    if texts is not None:
        return text_measures(run, read_texts(str(texts)), name=texts.name, n=n, tick=tick)
    if run.task != "translation":
        subject = own_subject(run, split, n)
        _tell(subject.notes)
        return measured(run, subject, tick)
    check_data(run.folder, run.recipe.data, PAIRS)
    data = load_data(run.recipe.data)
    _tell(data.notes)
    return head_measures(run, data, split=split, n=n, tick=tick)


def _tell(notes: Iterable[str]) -> None:
    for line in notes:
        note(line)


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
