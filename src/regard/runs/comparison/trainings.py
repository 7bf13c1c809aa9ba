"""The trainings of a comparison: first a system's learning rate, then every seed.

They are ordinary run folders, each trained once, however often asked for. A finished run is read
back; a run that was stopped goes on. So a comparison that was interrupted needs no memory of its
own.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from signal import Signals
from typing import Any

import torch

from regard.checkpoints.run_folder import RunFolder, load_scores, load_settings
from regard.core.errors import TrainingError
from regard.core.files import write_whole
from regard.data.records import Pair
from regard.models.presets import resolve
from regard.runs.comparison.contest import Contest
from regard.runs.estimate import Budget, changed, steps_within
from regard.runs.prepare import prepare
from regard.runs.train import train
from regard.tasks.base import Prepared
from regard.tasks.opening import pick_device
from regard.tasks.recipe import Recipe, recipe_from
from regard.tasks.translation_scores import evaluate_pairs
from regard.tasks.translator import load_translator
from regard.training.metrics import read_metrics
from regard.training.settings import TrainSettings

VALIDATIONS = 10
"""Of every training, so that each system has as many weights to choose the best from."""
WARM_UP = 0.2
"""Share of the steps that a warm-up may take, where the budget buys few."""
TRANSLATIONS = "translations.json"

Pairs = Mapping[str, Sequence[Pair]]
"""Pairs to translate, by the name of their split."""

GRID = (0.5, 1.0, 2.0)
"""Learning rates that are tried, as multiples of the recipe's own."""
GRID_SHARE = 0.25
"""Of the budget, for each of them."""


Watching = Callable[[TrainSettings], AbstractContextManager[Any]]
"""What watches a training: it is called with each line of metrics, and its ``say`` with words."""


class Stopped(Exception):  # noqa: N818 - no error: somebody asked for it
    """A signal ended a training; all is saved."""

    def __init__(self, signal: Signals) -> None:
        super().__init__(f"stopped by {signal.name}")
        self.signal = signal


class Planner:
    """Fits a system's recipe to a budget."""

    def __init__(self, recipe: Recipe, device: str | None) -> None:
        self.recipe, self.device = recipe, device

    def plan(
        self, budget: Budget, folder: RunFolder, *, lr: float, seed: int, validations: int
    ) -> Recipe:
        """The recipe with as many steps as the budget buys, and nothing else that ends it.

        A run that was begun keeps its steps: a speed is never measured twice alike.
        """
        changes = {"lr": lr, "seed": seed, "patience": None, "max_minutes": budget.minutes}
        wanted = changed(self.recipe, **changes)
        if folder.settings.exists():
            steps = recipe_from(load_settings(folder)).train.max_steps or 1
        else:
            prepared = dataclasses.replace(self._prepared, recipe=wanted)
            steps = steps_within(budget, prepared, validations=validations)
        warmup = min(wanted.train.warmup_steps, max(1, int(WARM_UP * steps)))
        eval_every = math.ceil(steps / validations)
        return changed(wanted, max_steps=steps, warmup_steps=warmup, eval_every=eval_every)

    @cached_property
    def _prepared(self) -> Prepared:
        """Data and model, when first they are needed: a finished comparison needs neither."""
        place = pick_device(self.device)
        with torch.random.fork_rng(devices=[place] if place.type == "cuda" else []):
            return prepare(self.recipe, place)


@dataclass(frozen=True, slots=True)
class FinishedTraining:
    """What a training of a comparison left behind."""

    facts: Mapping[str, Any]
    """scores.json"""
    metrics: Sequence[Mapping[str, Any]]
    """The lines of its validations."""
    translations: Mapping[str, Sequence[str]]
    """By split."""

    @property
    def loss(self) -> float:
        """The best on ``valid``."""
        return min(line["loss"] for line in self.metrics)


@dataclass(frozen=True, slots=True)
class Workshop:
    """Where and how a comparison trains."""

    out: Path
    device: str | None
    watching: Watching
    say: Callable[[str], None]

    def finished(
        self, what: str, plan: Callable[[RunFolder], Recipe], path: Path, pairs: Pairs
    ) -> FinishedTraining:
        """Train into a folder what ``plan`` says, unless that is done; then read it back.

        ``what`` names it for whoever waits; ``pairs`` are to be translated.
        """
        folder = RunFolder(path)
        if not folder.finished():
            self.say(what)
            recipe = plan(folder)
            with self.watching(recipe.train) as watcher:
                trained = train(
                    recipe,
                    path,
                    resume=folder.exists(),
                    device=self.device,
                    test_sets=list(pairs),
                    observers=[watcher],
                    say=watcher.say,
                )
            assert trained is not None, "it was not finished a moment ago"
            if trained.outcome.signal is not None:
                raise Stopped(trained.outcome.signal)
            _keep(path, {name: trained.evaluations[name].outputs for name in pairs})
        lines = [line for line in read_metrics(folder.metrics) if line["kind"] == "valid"]
        return FinishedTraining(load_scores(folder), lines, _translations(path, pairs, self.device))


def _translations(path: Path, pairs: Pairs, device: str | None) -> dict[str, list[str]]:
    """As kept, or made once more where a kill came between the run's end and keeping them."""
    if not pairs:
        return {}
    try:
        kept: dict[str, list[str]] = json.loads((path / TRANSLATIONS).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        run = load_translator(path, device=device)
        kept = {name: evaluate_pairs(run, some, split=name).outputs for name, some in pairs.items()}
        _keep(path, kept)
    return kept


def _keep(path: Path, translations: Mapping[str, Sequence[str]]) -> None:
    if translations:
        write_whole(path / TRANSLATIONS, json.dumps(translations, ensure_ascii=False) + "\n")


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
    runs: tuple[FinishedTraining, ...]
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
