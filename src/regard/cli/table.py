"""``regard table``: a lecture's table of results, every row trained here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.compare import Forecast
from regard.cli.terminal import Cluster, Device, Jobs, Json, note, show_tables
from regard.core.signals import Stop


def table(
    name: Annotated[str, typer.Argument(metavar="TABLE", help="translation or summarization.")],
    data: Annotated[
        list[str] | None,
        typer.Option(help="A built-in world, or a recipe; may be given again.", show_default=False),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            help="Of one training: a number of flops, tokens or min, as 3e12flops.",
            show_default="2e14flops",
        ),
    ] = None,
    converge: Annotated[
        bool | None,
        typer.Option(
            help="Train each row to convergence, too: as long as the recipe says.",
            show_default="converge",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Override a setting, for all rows."),
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Trainings of each row.", show_default="1")
    ] = None,
    members: Annotated[
        int | None, typer.Option(help="Runs of an ensemble.", show_default="3")
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(help="Of the models: tiny, small or base.", show_default="small"),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help="A small table of a built-in world, for two cores: tiny models, one budget and "
            "seed, ensembles of two.",
        ),
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the table.", show_default="runs/table-TABLE")
    ] = None,
    jobs: Jobs = None,
    cluster: Cluster = None,
    device: Device = None,
    as_json: Json = False,
) -> None:
    """Train every row of a lecture's table, and print it beside the published figures.

    All rows have the same data and budget; the learning rate of each is chosen on valid. Data sets
    that are added by another command with the same --out join the table. When it is interrupted,
    the same command goes on where it stopped.
    """
    from regard.runs import table_report as report
    from regard.runs.lecture_tables import table_named
    from regard.runs.side_by_side import Crew
    from regard.runs.table import make_table
    from regard.runs.table_request import least_work, request

    crew = Crew(jobs, cluster)
    lecture = table_named(name)
    asked = request(
        lecture,
        data=data or [],
        budget=budget,
        converge=converge,
        seeds=seeds,
        members=members,
        size=size,
        quick=quick,
        overrides=settings or [],
    )
    folder = out or Path(f"runs/table-{name}")
    expected = Forecast(asked.budget, least_work(asked, folder))
    try:
        sections = make_table(
            asked, folder, device=device, watching=expected.watching, say=expected.say, crew=crew
        )
    except Stop as stop:
        saved = f"all is saved in {folder}; the same command goes on from there"
        note(f"stopped by {stop.signal.name}; {saved}")
        raise typer.Exit(128 + stop.signal) from None
    expected.over()
    if as_json:
        print(json.dumps(report.as_json(lecture, sections), ensure_ascii=False))
        return
    shown = [report.section_table(lecture, one) for one in sections]
    show_tables(shown)
    for section in sections:
        for claim, verdict, finding in report.verdicts_table(section).rows:
            print(f"{section.data}: {claim}: {verdict} ({finding})")
    for where, title, why in report.failures_table(sections).rows:
        note(f"{where}: {title} failed: {why}")
    print(f"the page is {folder / 'table.html'}; beside it are .csv, .tex and .json")
