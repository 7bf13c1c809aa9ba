"""The trainings of a comparison: ordinary run folders, each trained once, however often asked for.

A finished run is read back; a run that was stopped goes on. So a comparison that was interrupted
needs no memory of its own.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from signal import Signals
from typing import Any, Protocol

import torch

from regard.checkpoints.run_folder import RunFolder, load_scores, load_settings
from regard.core.files import write_whole
from regard.data.pairs import Pair
from regard.recipes.recipe import Recipe, recipe_from
from regard.runs.budget import Budget, steps_within
from regard.runs.device import pick_device
from regard.runs.evaluate import evaluate_pairs
from regard.runs.evaluation import Evaluation
from regard.runs.kinds.translator import load_translator
from regard.runs.prepare import prepare
from regard.runs.prepared import Prepared
from regard.runs.train import train
from regard.training.metrics import read_metrics
from regard.training.settings import TrainSettings

VALIDATIONS = 10
"""Of every training, so that each system has as many weights to choose the best from."""
WARM_UP = 0.2
"""Share of the steps that a warm-up may take, where the budget buys few."""
TRANSLATIONS = "translations.json"

Pairs = Mapping[str, Sequence[Pair]]
"""Pairs to translate, by the name of their split."""


class Watcher(Protocol):
    """Is told of a training in numbers and in words."""

    def __call__(self, line: Mapping[str, Any]) -> None:
        """One line of metrics."""
        ...

    def say(self, text: str) -> None:
        """One line of words."""
        ...


Watching = Callable[[TrainSettings], AbstractContextManager[Watcher]]


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
        wanted = self._with(lr=lr, seed=seed, patience=None, max_minutes=budget.minutes)
        if folder.settings.exists():
            steps = recipe_from(load_settings(folder)).train.max_steps or 1
        else:
            prepared = dataclasses.replace(self._prepared, recipe=wanted)
            steps = steps_within(budget, prepared, validations=validations)
        warmup = min(wanted.train.warmup_steps, max(1, int(WARM_UP * steps)))
        eval_every = math.ceil(steps / validations)
        changes = {"max_steps": steps, "warmup_steps": warmup, "eval_every": eval_every}
        return wanted.model_copy(update={"train": wanted.train.model_copy(update=changes)})

    def _with(self, **changes: Any) -> Recipe:
        train = self.recipe.train.model_copy(update=changes)
        return self.recipe.model_copy(update={"train": train})

    @cached_property
    def _prepared(self) -> Prepared:
        """Data and model, when first they are needed: a finished comparison needs neither."""
        place = pick_device(self.device)
        with torch.random.fork_rng(devices=[place] if place.type == "cuda" else []):
            return prepare(self.recipe, place)


@dataclass(frozen=True, slots=True)
class Finished:
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
    ) -> Finished:
        """Train into a folder what ``plan`` says, unless that is done; then read it back.

        ``what`` names it for whoever waits; ``pairs`` are to be translated.
        """
        folder = RunFolder(path)
        if not folder.finished():
            self.say(what)
            evaluations = self._train(plan(folder), folder, list(pairs))
            _keep(path, {name: evaluations[name].outputs for name in pairs})
        lines = [line for line in read_metrics(folder.metrics) if line["kind"] == "valid"]
        return Finished(load_scores(folder), lines, _translations(path, pairs, self.device))

    def _train(
        self, recipe: Recipe, folder: RunFolder, test_sets: Sequence[str]
    ) -> Mapping[str, Evaluation]:
        with self.watching(recipe.train) as watcher:
            trained = train(
                recipe,
                folder.path,
                resume=folder.exists(),
                device=self.device,
                test_sets=test_sets,
                observers=[watcher],
                say=watcher.say,
            )
        assert trained is not None, "it was not finished a moment ago"
        if trained.outcome.signal is not None:
            raise Stopped(trained.outcome.signal)
        return trained.evaluations


def _translations(path: Path, pairs: Pairs, device: str | None) -> dict[str, list[str]]:
    """As kept, or made once more where a kill came between the run's end and keeping them."""
    if not pairs:
        return {}
    kept = _kept(path / TRANSLATIONS)
    if kept is None:
        run = load_translator(path, device=device)
        made = {name: evaluate_pairs(run, some, split=name) for name, some in pairs.items()}
        kept = {name: one.outputs for name, one in made.items()}
        _keep(path, kept)
    return kept


def _kept(file: Path) -> dict[str, list[str]] | None:
    """What was written, or None where that is not there or damaged."""
    try:
        kept: dict[str, list[str]] = json.loads(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None
    return kept


def _keep(path: Path, translations: Mapping[str, Sequence[str]]) -> None:
    if translations:
        write_whole(path / TRANSLATIONS, json.dumps(translations, ensure_ascii=False) + "\n")
