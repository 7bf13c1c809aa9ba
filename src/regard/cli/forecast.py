"""How long a comparison will take: told before it begins, and again as its trainings end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from regard.cli.notes import note
from regard.cli.progress import Shown, watching
from regard.core.counting import counted
from regard.core.durations import about
from regard.training.settings import TrainSettings

if TYPE_CHECKING:
    from regard.runs.budget import Budget
    from regard.runs.comparison.contest import Contest

Clock = Callable[[], float]


class Forecast:
    """Knows which trainings are left, as shares of the budget, and watches them go by.

    Where the budget counts minutes the time is known. FLOPs and tokens say nothing of this
    machine's speed; there the trainings that are done tell how long the others will take.
    """

    def __init__(
        self, budget: Budget, left: Sequence[float], clock: Clock = time.perf_counter
    ) -> None:
        self._left = list(left)
        self._clock = clock
        self._done = self._seconds = 0.0
        self._minutes = budget.minutes
        self._each = str(budget)
        self._told = False

    def say(self, text: str) -> None:
        """A note; before the first of them, what there is to do."""
        if not self._told:
            self._told = True
            self._announce()
        note(text)

    def _announce(self) -> None:
        amount = f"{sum(self._left):g} × {self._each}"
        when = "how long that takes is told after the first"
        if self._minutes is not None:
            when = about(60 * self._minutes * sum(self._left))
        note(f"{counted(len(self._left), 'training')} to go, {amount} in all: {when}")

    @contextmanager
    def watching(self, settings: TrainSettings) -> Iterator[Shown]:
        """As ``progress.watching``; a training that came to its end tells of the others."""
        share = self._left.pop(0)
        began = self._clock()
        with watching(settings) as shown:
            yield shown
        self._done += share
        self._seconds += self._clock() - began
        if self._left:
            note(f"{about(self._seconds / self._done * sum(self._left))} to go")


def forecast(asked: Contest, out: Path) -> Forecast:
    """Of all trainings of a comparison that are not finished in its folder."""
    from regard.checkpoints.run_folder import RunFolder
    from regard.runs.comparison.entrants import GRID_SHARE, learning_rates

    left = []
    for name, recipe in asked.systems.items():
        trials = [f"lr-{rate:g}" for rate in learning_rates(recipe)]
        shares = dict.fromkeys(trials, GRID_SHARE)
        shares |= dict.fromkeys([f"seed-{seed}" for seed in asked.seeds], 1.0)
        left += [
            share
            for folder, share in shares.items()
            if not RunFolder(out / name / folder).finished()
        ]
    return Forecast(asked.budget, left)
