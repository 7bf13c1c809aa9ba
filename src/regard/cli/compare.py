"""``regard compare``: systems side by side on the same data and budget.

How long it will take is told before it begins, and again as its trainings end.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.completion import recipe_names
from regard.cli.terminal import Cluster, Device, Jobs, Json, check_recipes, note, show_tables
from regard.core.numbers import about
from regard.core.signals import Stop

if TYPE_CHECKING:
    from regard.runs.compare import Contest
    from regard.runs.estimate import Budget
    from regard.runs.progress import Lines
    from regard.runs.trainings import Work
    from regard.training.settings import TrainSettings


def compare(
    systems: Annotated[
        list[str],
        typer.Argument(
            metavar="SYSTEM…",
            help="Recipes: built-in names, or YAML files.",
            callback=check_recipes,
            autocompletion=recipe_names,
        ),
    ],
    data: Annotated[
        str, typer.Option(help="A built-in world, or a recipe whose data, text and decode to use.")
    ] = "sentences",
    budget: Annotated[
        str, typer.Option(help="Of one training: a number of flops, tokens or min, as 3e12flops.")
    ] = "3e12flops",
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Override a setting, for all systems."),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Trainings of each system.")] = 3,
    out: Annotated[Path, typer.Option(help="Folder of the comparison.")] = Path("runs/compare"),
    jobs: Jobs = None,
    cluster: Cluster = None,
    device: Device = None,
    as_json: Json = False,
) -> None:
    """Train systems on the same data, tokenizer, seeds and budget, and lay them side by side.

    The learning rate of each is chosen on valid first, from a grid that widens until the best is
    inside, which costs two trainings more, or a little beyond. When it is interrupted, the same
    command goes on where it stopped.
    """
    from regard.runs import comparison as results
    from regard.runs.compare import compare as run_comparison
    from regard.runs.compare import contest
    from regard.runs.estimate import parse_budget
    from regard.runs.side_by_side import Crew

    crew = Crew(jobs, cluster)
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
            crew=crew,
        )
    except Stop as stop:
        saved = f"all is saved in {out}; the same command goes on from there"
        note(f"stopped by {stop.signal.name}; {saved}")
        raise typer.Exit(128 + stop.signal) from None
    expected.over()
    if as_json:
        print(json.dumps(comparison.as_json(), ensure_ascii=False))
        return
    show_tables([results.scores_table(comparison), results.lengths_table(comparison)])
    for column, how in results.notes_table(comparison).rows:
        print(f"{column}: {how}")
    for system, why in results.failures_table(comparison).rows:
        note(f"{system} failed: {why}")
    print(f"the page is {out / 'comparison.html'}; beside it are .csv, .tex and .json")


@dataclass
class Forecast:
    """Knows how much is left to train, in budgets, and watches trainings go by.

    Where the budget counts minutes the time is known. FLOPs and tokens say nothing of this
    machine's speed; there the trainings that are done tell how long the others will take. How many
    learning rates must be tried is not known before, so there may come more.
    """

    budget: Budget
    ahead: dict[str, float]
    """Budgets that each system will take, at least."""
    clock: Callable[[], float] = time.perf_counter
    done: float = 0.0
    seconds: float = 0.0
    told: bool = False

    def say(self, text: str) -> None:
        """A note; before the first of them, what there is to do."""
        if not self.told:
            self.told = True
            note(self._expected())
        note(text)

    def over(self) -> None:
        """All that was asked for is there: where nothing had to be trained for it, that is said."""
        if not self.told and not self._left:
            self.told = True
            note(self._expected())

    @property
    def _left(self) -> float:
        return sum(self.ahead.values())

    def _expected(self) -> str:
        n, minutes = self._left, self.budget.minutes
        if not n:
            return "all trainings were done already"
        unknown = "how long that takes is told after the first training"
        when = unknown if minutes is None else about(60 * minutes * n)
        return f"{n:g} × {self.budget} to go, or more: {when}"

    @contextmanager
    def watching(self, settings: TrainSettings, work: Work) -> Iterator[Lines]:
        """``progress.watching``; a training that came to its end tells of the others."""
        began = self.clock()
        from regard.runs.progress import watching

        with watching(settings) as shown:
            yield shown
        self.ahead[work.system] = work.left
        self.done += work.share
        self.seconds += self.clock() - began
        if left := self._left:
            note(f"{about(self.seconds / self.done * left)} to go")


def forecast(asked: Contest, out: Path) -> Forecast:
    """Of all trainings of a comparison that are not finished in its folder."""
    from regard.runs.trainings import budgets_left

    ahead = {name: budgets_left(out / name, asked.seeds) for name in asked.systems}
    return Forecast(asked.budget, ahead)
