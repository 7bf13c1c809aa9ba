"""The folder that a training is written to: whose it is, and which settings may change in it.

A training that goes on keeps what decides its steps: model, data, batches, optimiser. When it ends,
and how often it saves, validates and logs, may be said anew, so that a run can be given more steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Any

from regard.checkpoints.lock import FolderLock, locked
from regard.checkpoints.run_folder import RunFolder, check_links, load_settings, save_settings
from regard.checkpoints.snapshots import Snapshot
from regard.core.errors import CheckpointError, ConfigError
from regard.core.files import telling
from regard.core.numbers import apart
from regard.tasks.recipe import Recipe, recipe_from, remember_data
from regard.training.distributed import launch_name
from regard.training.loop import Progress, limit_reached
from regard.training.schedules import SCHEDULES
from regard.training.settings import TrainSettings

LIMITS = ("max_steps", "max_minutes", "patience")
"""Settings of ``train`` that end a training."""
MAY_CHANGE = (*LIMITS, "save_every", "keep", "eval_every", "log_every", "log", "film")
"""Settings of ``train`` that a training which goes on may be given anew."""


class Claim:
    """A folder that a training is to be written to: it must be ours, and ours to replace."""

    def __init__(self, recipe: Recipe, *, resume: bool, overwrite: bool) -> None:
        self.recipe, self.resume, self.overwrite = recipe, resume, overwrite
        self._lock: FolderLock | None = None
        self._begun: TrainSettings | None = None
        """What a training that goes on was told before."""

    def make(self, folder: RunFolder, held: ExitStack) -> bool:
        """Hold the folder until ``held`` ends -> whether what was begun in it goes on.

        A training that torchrun started again goes on, whatever was asked for.
        """
        if folder.path.exists() and not folder.path.is_dir():
            raise CheckpointError(f"{folder.path} is a file; choose another --out (out=)")
        self._lock = held.enter_context(locked(folder.path, launch_name()))
        goes_on = self.resume or self._lock.is_started_again
        check_links(folder)
        if goes_on and folder.settings.exists():
            self._begun = _checked_settings(folder, self.recipe)
        elif not self.overwrite:
            _refuse_what_is_there(folder)
        remember_data(folder.path, self.recipe.data)
        return goes_on

    def begin(self) -> None:
        """From now on the folder holds this training."""
        if self._lock is not None:
            self._lock.begin()

    def end(self) -> None:
        """The training came to its end; where it was only stopped, the same launch goes on."""
        if self._lock is not None:
            self._lock.end()

    @property
    def has_new_limits(self) -> bool:
        """Whether a training that goes on is to end elsewhere than it was told before."""
        new, old = self.recipe.train, self._begun
        return old is not None and any(getattr(new, x) != getattr(old, x) for x in LIMITS)

    def is_over(self, folder: RunFolder, snapshot: Snapshot | None) -> bool:
        """Whether a finished run, whose last snapshot is given, has nothing left to do."""
        if not self.has_new_limits:
            return True
        if snapshot is None:
            raise CheckpointError(
                f"{folder.path} is finished and has no checkpoint to go on from; start a new run "
                f"from its weights, with train.init={folder.path}"
            )
        return limit_reached(self.recipe.train, Progress(**snapshot.facts["progress"])) is not None

    def go_on(self, folder: RunFolder, recipe: Recipe) -> None:
        """Note new settings. A finished run is one no longer, and is scored again at its end."""
        if self._begun == recipe.train:
            return
        with telling(folder.scores):
            folder.scores.unlink(missing_ok=True)
        save_settings(folder, recipe.model_dump(mode="json"))

    def changed_rate(self, step: int, d_model: int) -> str | None:
        """What new limits do to the learning rate after a step, where its schedule knows them."""
        new, old = self.recipe.train, self._begun
        if old is None or new.max_steps == old.max_steps or not SCHEDULES[new.schedule].needs_end:
            return None
        ends = f"now falls to zero at step {new.max_steps}, not {old.max_steps}"
        was, rate = apart(*(one.rate_at(step + 1, d_model) for one in (old, new)))
        differs = (
            "" if was == rate else f": the learning rate of step {step + 1} is {rate}, not {was}"
        )
        return f"schedule {new.schedule} {ends}{differs}"


def _checked_settings(folder: RunFolder, recipe: Recipe) -> TrainSettings:
    """How the training of a folder was begun; it must be the same that is asked for now."""
    begun = recipe_from(load_settings(folder))
    anew = {name: getattr(recipe.train, name) for name in MAY_CHANGE}
    alike = begun.model_copy(update={"train": begun.train.model_copy(update=anew)})
    old, new = (one.model_dump(mode="json", exclude={"plugins"}) for one in (alike, recipe))
    if changes := list(settings_changes(old, new, depth=1)):
        raise ConfigError(
            f"{folder.path} was begun with other settings: {'; '.join(changes)}; leave that out "
            f"(only train.{', '.join(MAY_CHANGE)} may change), or begin a new run with another "
            f"--out (out=), from these weights with train.init={folder.path}"
        )
    return begun.train


def _refuse_what_is_there(folder: RunFolder) -> None:
    """Refuse a folder that is not ours to write to; nothing is touched yet."""
    if folder.settings.exists():
        raise CheckpointError(
            f"{folder.path} already holds a run; go on with --resume (resume=True), replace it "
            "with --overwrite (overwrite=True), or choose another --out (out=)"
        )
    if folder.model_config.exists():
        raise CheckpointError(
            f"{folder.path} holds a model that was not trained here: it has a "
            f"{folder.model_config.name} and no {folder.settings.name}; replace it with "
            "--overwrite (overwrite=True), or choose another --out (out=)"
        )


def settings_changes(
    old: Mapping[str, Any], new: Mapping[str, Any], *, depth: int, where: str = ""
) -> Iterator[str]:
    """What both name and do not agree on; sections lie up to ``depth`` deep in one another."""
    for key in [key for key in new if key in old]:
        was, value = old[key], new[key]
        if depth and isinstance(was, dict) and isinstance(value, dict):
            yield from settings_changes(was, value, depth=depth - 1, where=f"{where}{key}.")
        elif was != value:
            yield f"{where}{key} was {was!r} and is now {value!r}"
