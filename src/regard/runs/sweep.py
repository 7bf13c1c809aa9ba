"""Trials of settings, judged by a validation: ``regard sweep``.

A trial is an ordinary run folder, named after its settings. So a sweep that was interrupted needs
no memory of its own: what is finished is read back, what was stopped goes on. Halving trains all
trials for a few steps, and lets the better half go on with twice as many, until one is left
(successive halving, Jamieson & Talwalkar 2016). Nothing of a test set is looked at.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

import yaml

from regard.checkpoints.run_folder import RunFolder, load_settings
from regard.core.errors import CheckpointError, ConfigError, RegardError, TrainingError
from regard.core.files import write_whole
from regard.core.registry import did_you_mean
from regard.core.signals import Stop
from regard.core.yaml_text import read_yaml
from regard.evaluation.metrics import METRICS
from regard.recipes.recipe import load_recipe
from regard.runs.claims import settings_changes
from regard.runs.estimate import changed
from regard.runs.jobs import Job, Post, Say, check_count, run_jobs
from regard.runs.side_by_side import ALONE, Crew
from regard.runs.sweep_space import Axis, Point, Values, axis_of, check_axes, drawn, grid, n_points
from regard.runs.train import train
from regard.runs.trainings import untold, unwatched
from regard.tasks.opening import device_at, pick_device
from regard.tasks.recipe import Recipe, recipe_from
from regard.training.metrics import read_metrics
from regard.training.schedules import SCHEDULES
from regard.training.settings import TrainSettings

SETTINGS = "sweep.yaml"
"""What all trials of a folder share."""
TRIALS = 8
"""Points that are drawn, where nobody says how many."""
VALID = "valid."
"""Before the name of a metric that trials are judged by."""

Search = Literal["grid", "random", "halving"]
SEARCHES: tuple[Search, ...] = ("grid", "random", "halving")
Watching = Callable[[TrainSettings], AbstractContextManager[Any]]
"""What watches a training: it is called with each line of metrics, and its ``say`` with words."""

_PLAIN = re.compile(r"[\w.=,+-]{1,100}", re.ASCII)


@dataclass(frozen=True, slots=True)
class SweepTrial:
    """A point of a sweep, and the run folder in which it is trained."""

    settings: Point
    recipe: Recipe
    path: Path

    @property
    def name(self) -> str:
        """As it was written: ``lr=1e-3, dropout=0.1``."""
        return ", ".join(f"{key.partition('.')[2]}={text}" for key, text in self.settings.items())

    def is_done(self, steps: int | None) -> bool:
        """Whether it was trained for as many steps; all of the recipe where none are given."""
        folder = RunFolder(self.path)
        if not folder.settings.exists():
            return False
        begun = recipe_from(load_settings(folder)).train.max_steps
        if steps is None or begun is None or begun == steps:
            return folder.finished()
        return begun > steps  # it has gone on from there

    def lines(self, steps: int | None) -> list[dict[str, Any]]:
        """Its metrics, up to a step."""
        found = read_metrics(RunFolder(self.path).metrics)
        return found if steps is None else [line for line in found if line["step"] <= steps]

    def best(self, steps: int | None) -> tuple[float, int] | None:
        """Its best score by the criterion, and at which step that was; None without a validation.

        Until ``steps`` only, where they are given: so that halving judges as it did, once stopped.
        """
        criterion = self.recipe.train.criterion
        scores = [
            (line[criterion], line["step"])
            for line in self.lines(steps)
            if line["kind"] == "valid" and criterion in line
        ]
        return min(scores, key=lambda one: METRICS[criterion].cost(one[0]), default=None)

    def cost(self, steps: int | None) -> float:
        """Its best score, with the sign that makes lower better."""
        found = self.best(steps)
        return math.inf if found is None else METRICS[self.recipe.train.criterion].cost(found[0])


@dataclass(frozen=True, slots=True)
class Plan:
    """All that decides what a sweep trains."""

    recipe: Recipe
    """What all trials share."""
    search: Search
    trials: tuple[SweepTrial, ...]

    @property
    def rounds(self) -> list[tuple[int, int | None]]:
        """How many trials are trained for how many steps, one after another."""
        n, steps = len(self.trials), self.recipe.train.max_steps
        if self.search != "halving":
            return [(n, steps)]
        assert steps is not None, "it was checked"
        last = min(int(math.log2(n)), int(math.log2(steps)))
        return [(max(1, n >> i), max(1, steps >> (last - i))) for i in range(last + 1)]


def plan(
    recipe: str,
    overrides: Sequence[str],
    out: Path,
    *,
    by: str | None = None,
    search: str | None = None,
    n_trials: int | None = None,
    seed: int = 1,
) -> Plan:
    """A sweep of a recipe, by name or file; those of the overrides that name several values vary.

    Without ``search``, every combination is tried, or ``n_trials`` of them where they are more.
    """
    parsed = [(axis_of(one), one) for one in overrides]
    axes = [axis for axis, _ in parsed if not (isinstance(axis, Values) and len(axis.texts) == 1)]
    shared = [one for axis, one in parsed if axis not in axes]
    check_axes(axes)
    if by is not None:
        shared.append(f"train.criterion={criterion_of(by)}")
    base = load_recipe(recipe, shared)
    how, points = _points(axes, search, n_trials, seed)
    if how == "halving" and base.train.max_steps is None:
        raise ConfigError(
            f"--search halving divides train.max_steps, and {recipe} has none: set it"
        )
    trials = []
    for point in points:
        chosen = load_recipe(recipe, [*shared, *(f"{key}={text}" for key, text in point.items())])
        trials.append(SweepTrial(point, chosen, out / _folder_name(point)))
    return Plan(base, how, tuple(trials))


def criterion_of(by: str) -> str:
    """The metric that ``valid.bleu`` names; any other split is refused."""
    if not by.startswith(VALID):
        raise ConfigError(
            f"--by {by}: settings are chosen on the validation alone, so that test scores mean "
            f"something afterwards; give {VALID}NAME, such as {VALID}loss"
        )
    METRICS[by.removeprefix(VALID)]  # or says which there are
    return by.removeprefix(VALID)


def _points(
    axes: Sequence[Axis], search: str | None, n_trials: int | None, seed: int
) -> tuple[Search, list[Point]]:
    if n_trials is not None:
        check_count("--trials", n_trials)
    if search is None:
        search = "grid" if n_points(axes) <= (n_trials or math.inf) else "random"
        search = "random" if math.isinf(n_points(axes)) else search
    known = {one: one for one in SEARCHES}
    if search not in known:
        hint = did_you_mean(search, known)
        raise ConfigError(f"--search {search}{hint}: give one of {', '.join(known)}")
    if search == "grid" and n_points(axes) > (n_trials or math.inf):
        raise ConfigError(
            f"the grid has {n_points(axes):g} points, and --trials is {n_trials}; give fewer "
            "values, or --search random"
        )
    if search == "grid" or (n_trials is None and not math.isinf(n_points(axes))):
        return known[search], grid(axes)
    return known[search], drawn(axes, n_trials or TRIALS, seed)


def _folder_name(point: Point) -> str:
    """``lr=1e-3,dropout=0.1``; other signs than letters and digits become a digest."""
    name = ",".join(f"{key.partition('.')[2]}={text}" for key, text in point.items())
    if _PLAIN.fullmatch(name):
        return name
    short = re.sub(r"[^A-Za-z0-9.=,+-]+", "_", name)[:80]
    return f"{short}-{sha256(name.encode()).hexdigest()[:8]}"


def claim(out: Path, asked: Plan) -> None:
    """Take a folder for a sweep, or go on with the one in it; any other use is refused.

    More values and more trials only add to it.
    """
    if out.exists() and not out.is_dir():
        raise CheckpointError(f"{out} is a file; choose another --out")
    if RunFolder(out).exists():
        raise CheckpointError(f"{out} holds a run, not a sweep; choose another --out")
    new = {"recipe": asked.recipe.model_dump(mode="json", exclude={"plugins"})}
    swept = {key for trial in asked.trials for key in trial.settings}
    for section, _, key in (name.partition(".") for name in swept):
        new["recipe"][section].pop(key, None)
    path = out / SETTINGS
    old = read_yaml(path) if path.exists() else {}
    if not isinstance(old, dict):
        raise CheckpointError(f"{path} is damaged: it holds no settings of a sweep")
    if changes := list(settings_changes(old, new, depth=2)):
        raise ConfigError(
            f"{out} was begun with other settings: {'; '.join(changes)}; choose another --out"
        )
    write_whole(path, yaml.safe_dump(new, sort_keys=False, allow_unicode=True))


@dataclass(frozen=True, slots=True)
class Swept:
    """What came of a trial."""

    trial: SweepTrial
    steps: int | None
    """What it was to be trained for, in the last round that it came to."""
    error: str | None = None


def sweep(
    asked: Plan,
    out: Path,
    *,
    device: str | None = None,
    watching: Watching = unwatched,
    say: Say = untold,
    crew: Crew = ALONE,
) -> list[Swept]:
    """Train the trials -> what came of each, the best first.

    Whatever stops a sweep, calling it again goes on where it was. A signal raises ``Stop``; a trial
    that fails says why, unless all fail. A ``crew`` trains several at once.
    """
    pick_device(device)  # what cannot be done at all is refused before a folder is taken
    claim(out, asked)
    if asked.search == "halving" and SCHEDULES[asked.recipe.train.schedule].needs_end:
        say(
            f"schedule {asked.recipe.train.schedule} falls to zero at the end of each round, and "
            "goes on as that of the longer training"
        )
    came: dict[str, Swept] = {}
    alive, before = list(asked.trials), asked.rounds[0][1]
    for n, steps in asked.rounds:
        # Sorting is stable: of equals, those named first go on.
        alive = sorted(alive, key=lambda trial: trial.cost(before))[:n] if came else alive
        errors = _trained(alive, steps, device, watching, say, crew)
        for trial in alive:
            came[trial.name] = Swept(trial, steps, errors.get(trial.name))
        alive, before = [trial for trial in alive if trial.name not in errors], steps
        if not alive:
            reasons = "; ".join(f"{name}: {error}" for name, error in errors.items())
            raise TrainingError(f"no trial could be trained: {reasons}")
    return sorted(came.values(), key=_order)


def _order(one: Swept) -> tuple[bool, int, float]:
    """What was trained longest first, then what is better; failures last."""
    return one.error is not None, -(one.steps or 0), one.trial.cost(one.steps)


def _trained(
    trials: Sequence[SweepTrial],
    steps: int | None,
    device: str | None,
    watching: Watching,
    say: Say,
    crew: Crew,
) -> Mapping[str, str]:
    """Train what is left of a round -> why trials failed, by their names."""
    left = [trial for trial in trials if not trial.is_done(steps)]
    errors: dict[str, str] = {}
    if crew and left:
        jobs = [Job(one.name, partial(_train_as_job, one, steps, device)) for one in left]
        for n, ended in enumerate(run_jobs(jobs, crew.place(device, say)), start=1):
            if ended.error is not None:
                errors[ended.name] = _told(ended.error)
            say(f"{ended.name}: {errors.get(ended.name, 'done')} ({n} of {len(left)})")
        return errors
    for n, one in enumerate(left, start=1):
        until = "" if steps is None else f", until step {steps}"
        say(f"{one.name}{until} ({n} of {len(left)})")
        try:
            _train(one, steps, device, watching)
        except Exception as error:  # hours of the others' work must not go with it
            errors[one.name] = _told(error)
            say(f"{one.name} failed: {errors[one.name]}")
    return errors


def _told(error: Exception) -> str:
    return str(error) if isinstance(error, RegardError) else f"{type(error).__name__}: {error}"


def _train_as_job(trial: SweepTrial, steps: int | None, device: str | None, post: Post) -> None:
    """A job: train a trial on the device of its place."""
    _train(trial, steps, device_at(device, post.slot), unwatched)


def _train(trial: SweepTrial, steps: int | None, device: str | None, watching: Watching) -> None:
    """Train a trial for as many steps, from where it was; it is validated and never tested."""
    recipe = trial.recipe if steps is None else changed(trial.recipe, max_steps=steps)
    with watching(recipe.train) as watcher:
        trained = train(
            recipe,
            trial.path,
            resume=RunFolder(trial.path).exists(),
            device=device,
            test_sets=(),
            observers=[watcher],
            say=watcher.say,
        )
    if trained is not None and trained.outcome.signal is not None:
        raise Stop(trained.outcome.signal)
