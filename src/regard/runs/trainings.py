"""All trainings of a system: trials of learning rates first, then one training a seed.

Trainings are ordinary run folders: a finished run is read back, one that was stopped goes on. So
what is made of many of them, and was interrupted, needs no memory of its own.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import torch

from regard.checkpoints.run_folder import RunFolder, load_scores, load_settings
from regard.core.errors import CheckpointError, ConfigError, TrainingError
from regard.core.files import read_json, write_whole
from regard.core.signals import Stop
from regard.models.presets import resolve_for
from regard.runs.estimate import Budget, changed, steps_within
from regard.runs.prepare import prepare
from regard.runs.rates import (
    FIRST,
    LEAST_STEPS,
    SHARES,
    RateSearch,
    Trial,
    least_cost,
    rate_at,
    rate_for,
    search_rate,
)
from regard.runs.train import train
from regard.tasks.base import TASKS, Prepared
from regard.tasks.opening import load, pick_device
from regard.tasks.recipe import Recipe, recipe_from
from regard.training.metrics import read_metrics
from regard.training.settings import TrainSettings

VALIDATIONS = 10
"""Of every training of so many steps: each system has as many weights to choose the best from."""
WARM_UP = 0.2
"""Share of the steps that a warm-up may take, where the budget buys few."""
OUTPUTS = "translations.json"
"""What a model wrote for each example of the splits on which it was scored."""

Until = Literal["budget", "converged"]
"""When a training ends: when its budget is spent, or where the recipe of the data ends."""


@dataclass(frozen=True, slots=True)
class Work:
    """A training that begins: of which system, how much of the budget, and what is to follow."""

    system: str
    share: float
    left: float
    """Shares of the budget that the system will take after it, as far as is known."""


Watching = Callable[[TrainSettings, Work], AbstractContextManager[Any]]
"""What watches a training: it is called with each line of metrics, and its ``say`` with words."""


class _Silent:
    """Watches a training and tells nobody."""

    def __call__(self, line: Mapping[str, Any]) -> None:
        pass

    def say(self, text: str) -> None:
        pass


def unwatched(_settings: TrainSettings, _work: Work | None = None) -> AbstractContextManager[Any]:
    """Watch nothing."""
    return nullcontext(_Silent())


def untold(_text: str) -> None:
    """Tell nobody."""


@dataclass(frozen=True, slots=True)
class FinishedTraining:
    """What a training left behind."""

    facts: Mapping[str, Any]
    """scores.json"""
    metrics: Sequence[Mapping[str, Any]]
    """The lines of its validations."""
    translations: Mapping[str, Sequence[str]]
    """What it wrote, by split."""


@dataclass(frozen=True, slots=True)
class Entry:
    """All trainings of a system."""

    trials: tuple[Trial, ...]
    lr: float
    """The one chosen, or what follows from it for a longer training."""
    runs: tuple[FinishedTraining, ...]
    """One a seed."""


@dataclass(frozen=True)
class SystemTrainings:
    """All trainings of a system: where and how, and the splits on which its models are scored."""

    name: str
    recipe: Recipe
    """Before rate, seed and steps are set."""
    budget: Budget
    """Of one training: one seed."""
    seeds: tuple[int, ...]
    splits: tuple[str, ...]
    out: Path
    """Folder of the system; its runs lie in it."""
    device: str | None = None
    watching: Watching = unwatched
    say: Callable[[str], None] = untold
    lr: float | None = None
    """A rate that needs no search."""
    found: RateSearch | None = None
    """A search that was done elsewhere."""
    init: Callable[[int, Until], Path] | None = None
    """The run that the training of a seed starts from; then it ends with its budget."""

    def entry(self, until: Until = "budget") -> Entry:
        """Choose a rate with the first seed, then train every seed."""
        found = self.search
        runs = tuple(self.trained(found.lr, seed, until) for seed in self.seeds)
        lr = _begun(self.run_path(self.seeds[0], until)).lr
        assert lr is not None, "a plan has a rate"
        return Entry(found.trials, lr, runs)

    @cached_property
    def search(self) -> RateSearch:
        """The trials of learning rates."""
        if self.lr is not None:
            return RateSearch((), self.lr)
        if self.found is not None:
            return self.found
        centre = centre_rate(self.recipe)
        if not any(self.out.glob("lr-*")):
            rates = ", ".join(f"{rate_at(centre, step):g}" for step in FIRST)
            self.say(
                f"{self.name}: learning rate: tries {rates}, around {centre:g} (of the recipe, "
                "the row or --set train.lr), and more where the best is at an edge"
            )
        found = search_rate(centre, self._shares(), self._tried)
        if found.bounded:
            self.say(
                f"{self.name}: learning rate {found.lr:g} is the last that the grid widens to; "
                "a better one may lie beyond: set train.lr nearer to it"
            )
        return found

    def run_path(self, seed: int, until: Until = "budget") -> Path:
        """Where the run of a seed lies."""
        return run_path(self.out, seed, until)

    def _shares(self) -> Sequence[float]:
        """Of the budget, for trials: short ones first, unless they would tell nothing.

        A search that was begun goes on as it began: a speed is never measured twice alike.
        """
        for n, share in enumerate(SHARES):
            if any(self.out.glob(f"lr-*-{share:g}")):
                return SHARES[n:]
        steps = self._steps(self.budget, self.recipe, VALIDATIONS)
        return [share for share in SHARES[:-1] if share * steps >= LEAST_STEPS] + [SHARES[-1]]

    def _tried(self, rate: float, share: float, left: float) -> Trial:
        path = self.out / f"lr-{rate:g}-{share:g}"
        work = Work(self.name, share, left + len(self.seeds))
        try:
            if not RunFolder(path).finished():
                self.say(f"{self.name}: trying learning rate {rate:g}, {share:g} of the budget")
                self._train(path, rate, self.seeds[0], work)
            run = self._read(path, ())
        except TrainingError as error:  # a rate can be too high for a system that is sound
            self.say(f"{self.name}: learning rate {rate:g}: {error}")
            lines = read_metrics(path / "metrics.jsonl")
            spent = lines[-1] if lines else {"flops": 0.0, "seconds": 0.0}
            return Trial(rate, None, spent["flops"], spent["seconds"], share)
        best, measured = min(line["loss"] for line in run.metrics), run.facts["measured"]
        return Trial(rate, best, measured["flops"], measured["seconds"], share)

    def trained(self, lr: float, seed: int, until: Until = "budget") -> FinishedTraining:
        """Train a seed into a folder of its own, unless that is done; then read it back."""
        path = self.run_path(seed, until)
        if RunFolder(path).settings.exists():
            self._check_begun(path, lr, until)
        if not RunFolder(path).finished():
            left = sum(not RunFolder(self.run_path(s, until)).finished() for s in self.seeds)
            work = Work(self.name, 1.0, max(0, left - 1))
            self._train(path, lr, seed, work, until)
        return self._read(path, self.splits)

    def _check_begun(self, path: Path, lr: float, until: Until) -> None:
        """Refuse a run that was begun otherwise than it would be now."""
        was, own = _begun(path), self.recipe.train
        if until == "converged" and self.init is None:  # its rate follows from the one chosen
            if (was.schedule, was.patience) != (own.schedule, own.patience):
                raise ConfigError(
                    f"{path} was begun when trainings to convergence ended otherwise; choose "
                    "another --out"
                )
        elif was.lr != lr:
            raise ConfigError(
                f"{path} was begun with learning rate {was.lr}, and {lr:g} is chosen now; choose "
                "another --out"
            )

    def _train(self, path: Path, lr: float, seed: int, work: Work, until: Until = "budget") -> None:
        """Train, or go on where it was stopped; what the model wrote of each split is kept."""
        recipe = self._planned(RunFolder(path), lr, seed, work.share, until)
        if work.share == 1:
            self.say(f"{self.name}: learning rate {recipe.train.lr:g}, seed {seed}")
        splits = self.splits if work.share == 1 else ()
        with self.watching(recipe.train, work) as watcher:
            trained = train(
                recipe,
                path,
                resume=RunFolder(path).exists(),
                device=self.device,
                test_sets=list(splits),
                observers=[watcher],
                say=watcher.say,
            )
        assert trained is not None, "it was not finished a moment ago"
        if trained.outcome.signal is not None:
            raise Stop(trained.outcome.signal)
        _keep(path, {name: trained.evaluations[name].outputs for name in splits})

    def _read(self, path: Path, splits: Sequence[str]) -> FinishedTraining:
        folder = RunFolder(path)
        lines = [line for line in read_metrics(folder.metrics) if line["kind"] == "valid"]
        return FinishedTraining(load_scores(folder), lines, kept_outputs(path, splits, self.device))

    def _planned(
        self, folder: RunFolder, lr: float, seed: int, share: float, until: Until
    ) -> Recipe:
        """The recipe with as many steps as the budget buys, and nothing else that ends it.

        To convergence, a training is as long as the recipe has it. A run that was begun keeps its
        steps: a speed is never measured twice alike.
        """
        if folder.settings.exists():
            return changed(self.recipe, **_plan_of(_begun(folder.path)))
        plan: dict[str, Any] = {"lr": lr, "seed": seed}
        if self.init is not None:
            plan["init"], until = str(self.init(seed, until)), "budget"
        if until == "converged":
            return changed(self.recipe, **{**plan, **self._lasting(lr)})
        budget, validations = self.budget.share(share), VALIDATIONS if share == 1 else 1
        wanted = changed(self.recipe, **plan, patience=None, max_minutes=budget.minutes)
        steps = self._steps(budget, wanted, validations)
        warmup = min(wanted.train.warmup_steps, max(1, int(WARM_UP * steps)))
        every = math.ceil(steps / validations)
        return changed(wanted, warmup_steps=warmup, eval_every=every, max_steps=steps)

    def _lasting(self, lr: float) -> dict[str, Any]:
        """Steps to convergence, never fewer than the budget's; and the rate for so many."""
        if (recipe_steps := self.recipe.train.max_steps) is None:
            return {}  # minutes end it
        steps = max(recipe_steps, self._steps(self.budget, self.recipe, VALIDATIONS))
        plan = {"max_steps": steps, "eval_every": math.ceil(steps / VALIDATIONS)}
        trial = RunFolder(self.out / f"lr-{lr:g}-{SHARES[-1]:g}")
        if not trial.settings.exists():  # nothing was tried: the rate was given
            return plan
        tried = _begun(trial.path).max_steps
        assert tried is not None, "a trial has its steps"
        return {**plan, "lr": rate_for(steps, lr, tried)}

    def _steps(self, budget: Budget, recipe: Recipe, validations: int) -> int:
        prepared = dataclasses.replace(self._prepared, recipe=recipe)
        return steps_within(budget, prepared, validations=validations)

    @cached_property
    def _prepared(self) -> Prepared:
        """Data and model, when first they are needed: what is finished needs neither."""
        place = pick_device(self.device)
        recipe = self.recipe
        if self.init is not None:  # any of its runs will do: they have the same tokenizer
            recipe = changed(recipe, init=str(self.init(self.seeds[0], "budget")))
        with torch.random.fork_rng(devices=[place] if place.type == "cuda" else []):
            return prepare(recipe, place)


def run_path(out: Path, seed: int, until: Until = "budget") -> Path:
    """Where the run of a seed lies in the folder of its system."""
    return out / (f"seed-{seed}" if until == "budget" else f"converged-{seed}")


def budgets_left(
    out: Path,
    seeds: Sequence[int],
    endings: Sequence[Until] = ("budget",),
    *,
    share: float | None = None,
) -> float:
    """Budgets that a system's trainings in a folder still take, at least.

    A ``share`` of the budget is that of trainings whose rate needs no search.
    """
    runs = [RunFolder(run_path(out, seed, until)) for until in endings for seed in seeds]
    searched = share is not None or any(one.exists() for one in runs)
    trials = [one for one in out.glob("lr-*-*") if RunFolder(one).finished()]
    tried = sum(float(one.name.rpartition("-")[2]) for one in trials)
    search = 0.0 if searched else max(0.0, least_cost() - tried)
    return search + (1.0 if share is None else share) * sum(not one.finished() for one in runs)


_PLANNED = (
    "lr", "seed", "patience", "max_minutes", "max_steps", "warmup_steps", "eval_every", "init",
)  # fmt: skip
"""What a plan decides of a training."""


def _begun(path: Path) -> TrainSettings:
    """What a run in a folder was begun with."""
    return recipe_from(load_settings(RunFolder(path))).train


def _plan_of(settings: TrainSettings) -> dict[str, Any]:
    return {name: getattr(settings, name) for name in _PLANNED}


def centre_rate(recipe: Recipe) -> float:
    """The recipe's own highest learning rate, around which others are tried."""
    task = TASKS[recipe.task]
    stand_ins = task.stand_ins(recipe.model_dump(mode="json"))
    config = resolve_for(task.name, task.config, recipe.model, **stand_ins)
    return recipe.train.highest_rate(config.d_model)


def kept_outputs(
    path: Path, splits: Sequence[str], device: str | None = None
) -> dict[str, list[str]]:
    """As kept, or made once more where a kill came between the run's end and keeping them."""
    if not splits:
        return {}
    try:
        kept: dict[str, list[str]] = read_json(path / OUTPUTS)
    except CheckpointError:  # it is not there, or was cut short
        run = load(path, device=device)
        kept = {name: TASKS[run.task].evaluate(run, name).outputs for name in splits}
        _keep(path, kept)
    return kept


def _keep(path: Path, outputs: Mapping[str, Sequence[str]]) -> None:
    if outputs:
        write_whole(path / OUTPUTS, json.dumps(outputs, ensure_ascii=False) + "\n")
