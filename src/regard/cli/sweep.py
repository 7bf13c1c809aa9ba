"""``regard sweep``: a recipe with several values of its settings, judged by the validation."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.completion import setting_names
from regard.cli.terminal import Cluster, Device, Jobs, Json, RecipeName, note, show_tables
from regard.core.signals import Stop

if TYPE_CHECKING:
    from regard.training.settings import TrainSettings


def sweep(
    recipe: Annotated[str, RecipeName],
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUES",
            autocompletion=setting_names,
            help="Values to try, KEY=A,B,…; a range to draw from, KEY=LOW..HIGH; or one for all.",
        ),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(metavar="valid.METRIC", help="What chooses; by default train.criterion."),
    ] = None,
    search: Annotated[
        str | None,
        typer.Option(
            metavar="grid|random|halving",
            help="Every combination, some of them, or all with the worse half stopped early, again "
            "and again. By default grid, or random where there are more than --trials.",
        ),
    ] = None,
    trials: Annotated[int | None, typer.Option(metavar="N", help="Trials, at most.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of what is drawn.")] = 1,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the sweep; by default runs/RECIPE-sweep.")
    ] = None,
    jobs: Jobs = None,
    cluster: Cluster = None,
    device: Device = None,
    as_json: Json = False,
) -> None:
    """Train a recipe with several values of its settings, and say which did best on valid.

    Every trial is a run folder. No test set is looked at: `regard evaluate` does that, once, for
    the run that was chosen. When it is interrupted, the same command goes on where it stopped, and
    more values or trials add to it.
    """
    from regard.runs.compare import system_name
    from regard.runs.progress import watching
    from regard.runs.side_by_side import Crew
    from regard.runs.sweep import plan
    from regard.runs.sweep import sweep as run_sweep
    from regard.runs.sweep_results import SweepResult, failures_table, sweep_table, write_sweep
    from regard.tasks.base import TASKS

    crew, name = Crew(jobs, cluster), system_name(recipe)
    folder = out or Path("runs") / f"{name}-sweep"
    asked = plan(recipe, settings or [], folder, by=by, search=search, n_trials=trials, seed=seed)
    unit = TASKS[asked.recipe.task].unit

    def watched(train: TrainSettings) -> AbstractContextManager[Any]:
        return watching(train, unit)

    try:
        came = run_sweep(asked, folder, device=device, watching=watched, say=note, crew=crew)
    except Stop as stop:
        saved = f"all is saved in {folder}; the same command goes on from there"
        note(f"stopped by {stop.signal.name}; {saved}")
        raise typer.Exit(128 + stop.signal) from None
    result = SweepResult(name, asked, came)
    write_sweep(result, folder)
    if as_json:
        print(json.dumps(result.as_json(), ensure_ascii=False))
        return
    show_tables([sweep_table(result)])
    for trial, why in failures_table(result).rows:
        note(f"{trial} failed: {why}")
    print(f"best: {result.best.trial.name}; its run is {result.best.trial.path}")
    print(f"the page is {folder / 'sweep.html'}; beside it are .csv and .json")
