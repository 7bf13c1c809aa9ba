"""One system's part in a comparison: first its learning rate, then its trainings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from regard.core.errors import TrainingError
from regard.models.presets import resolve
from regard.recipes.recipe import Recipe
from regard.runs.comparison.contest import Contest
from regard.runs.comparison.trainings import VALIDATIONS, Finished, Pairs, Planner, Workshop
from regard.training.metrics import read_metrics

GRID = (0.5, 1.0, 2.0)
"""Learning rates that are tried, as multiples of the recipe's own."""
GRID_SHARE = 0.25
"""Of the budget, for each of them."""


@dataclass(frozen=True, slots=True)
class Trial:
    """A learning rate, what it came to on ``valid``, and what it cost to find out."""

    lr: float
    loss: float | None
    """None where the training could not go on."""
    flops: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Entry:
    """All trainings of a system."""

    trials: tuple[Trial, ...]
    lr: float
    """The one chosen."""
    runs: tuple[Finished, ...]
    """One a seed, with the whole budget."""


def enter(name: str, asked: Contest, pairs: Pairs, workshop: Workshop) -> Entry:
    """Train a system: short trials of the rates with the first seed, then every seed."""
    recipe = asked.systems[name]
    planner, home = Planner(recipe, workshop.device), workshop.out / name
    trials = tuple(_tried(rate, asked, planner, home, workshop) for rate in learning_rates(recipe))
    lr = _chosen(trials)
    runs = []
    for seed in asked.seeds:
        what = f"{name}: learning rate {lr:g}, seed {seed}"
        plan = partial(planner.plan, asked.budget, lr=lr, seed=seed, validations=VALIDATIONS)
        runs.append(workshop.finished(what, plan, home / f"seed-{seed}", pairs))
    return Entry(trials, lr, tuple(runs))


def learning_rates(recipe: Recipe) -> list[float]:
    """The rates to try."""
    config = resolve(recipe.model, n_source_vocab=9, n_target_vocab=9, shared_vocab=True)
    centre = recipe.train.highest_rate(config.d_model)
    return [float(f"{factor * centre:.3g}") for factor in GRID]


def _tried(rate: float, asked: Contest, planner: Planner, home: Path, workshop: Workshop) -> Trial:
    what = f"{home.name}: trying learning rate {rate:g}"
    folder = home / f"lr-{rate:g}"
    budget, seed = asked.budget.share(GRID_SHARE), asked.seeds[0]
    plan = partial(planner.plan, budget, lr=rate, seed=seed, validations=1)
    try:
        run = workshop.finished(what, plan, folder, {})
    except TrainingError as error:  # a rate can be too high for a system that is sound
        workshop.say(f"{home.name}: learning rate {rate:g}: {error}")
        lines = read_metrics(folder / "metrics.jsonl")
        spent = lines[-1] if lines else {"flops": 0.0, "seconds": 0.0}
        return Trial(rate, None, spent["flops"], spent["seconds"])
    measured = run.facts["measured"]
    return Trial(rate, run.loss, measured["flops"], measured["seconds"])


def _chosen(trials: Sequence[Trial]) -> float:
    """The rate with the lowest loss."""
    sound = [(trial.loss, trial.lr) for trial in trials if trial.loss is not None]
    if not sound:
        tried = ", ".join(f"{trial.lr:g}" for trial in trials)
        raise TrainingError(f"no learning rate of {tried} led anywhere; lower train.lr")
    return min(sound)[1]
