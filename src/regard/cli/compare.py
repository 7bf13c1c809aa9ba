"""``regard compare``: systems side by side on the same data and budget."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.notes import note
from regard.cli.options import Device, Json
from regard.cli.stopping import Stop

if TYPE_CHECKING:
    from regard.runs.comparison.rows import Comparison


def compare(
    systems: Annotated[
        list[str], typer.Argument(metavar="SYSTEM…", help="Recipes: built-in names, or YAML files.")
    ],
    data: Annotated[
        str, typer.Option(help="A built-in world, or a recipe whose data, text and decode to use.")
    ] = "sentences",
    budget: Annotated[
        str, typer.Option(help="Of one training: so many flops, tokens, or min.")
    ] = "3e12flops",
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Override a setting, for all systems."),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Trainings of each system.")] = 3,
    out: Annotated[Path, typer.Option(help="Folder of the comparison.")] = Path("runs/compare"),
    device: Device = None,
    as_json: Json = False,
) -> None:
    """Train systems on the same data, tokenizer, seeds and budget, and lay them side by side.

    The learning rate of each is chosen on valid first, which costs three quarters of a training
    more. When it is interrupted, the same command goes on where it stopped.
    """
    from regard.cli.forecast import forecast
    from regard.runs.budget import parse_budget
    from regard.runs.comparison.compare import compare as run_comparison
    from regard.runs.comparison.contest import contest
    from regard.runs.comparison.trainings import Stopped

    chosen = range(1, seeds + 1)
    expected = forecast(contest(systems, data, parse_budget(budget), chosen, settings or []), out)
    try:
        comparison = run_comparison(
            systems,
            data=data,
            budget=budget,
            seeds=chosen,
            out=out,
            device=device,
            overrides=settings or [],
            watching=expected.watching,
            say=expected.say,
        )
    except (Stopped, Stop) as stop:  # in a training, and between two
        note(
            f"stopped by {stop.signal.name}; all is saved in {out}; the same command goes on from "
            "there"
        )
        raise typer.Exit(128 + stop.signal) from None
    if as_json:
        print(json.dumps(comparison.as_json(), ensure_ascii=False))
    else:
        show_comparison(comparison)
        print(f"the page is {out / 'comparison.html'}; beside it are .csv, .tex and .json")


def show_comparison(comparison: Comparison) -> None:
    """Print the tables for a person."""
    from rich.console import Console

    from regard.runs.comparison import tables
    from regard.visual.grid import show_table

    width = None if sys.stdout.isatty() else 1000  # in a file, lines may be long
    console = Console(markup=False, highlight=False, width=width)
    for table in (tables.scores_table(comparison), tables.lengths_table(comparison)):
        console.print(f"\n{table.caption}", soft_wrap=True)
        show_table(table, console, ruled=True)
    for column, how in tables.notes_table(comparison).rows:
        console.print(f"{column}: {how}", soft_wrap=True)
    for system, why in tables.failures_table(comparison).rows:
        note(f"{system} failed: {why}")
