"""Settings that a task has no use for are refused: nobody would notice that they do nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from regard.core.errors import ConfigError
from regard.models.settings import TaskName
from regard.recipes.recipe import Recipe

WRITING: tuple[TaskName, ...] = ("translation", "language")
USERS: Mapping[str, tuple[TaskName, ...]] = {
    "data.columns": ("translation", "classification", "similarity", "answers", "language"),
    "data.prompt": ("language",),
    "data.long_lines": ("translation",),
    "text.shared": ("translation",),
    "text.bpe_dropout": ("translation",),
    "train.label_smoothing": ("translation", "language", "classification", "masked", "answers"),
    "train.teacher_forcing": ("translation",),
    "decode.beam": ("translation",),
    "decode.length_penalty": ("translation",),
    "decode.precision": WRITING,
    "decode.replace_unknown": ("translation",),
    "decode.max_len": WRITING,
}
"""The tasks that heed a setting, for all that not every task does."""


def check_used(recipe: Recipe) -> None:
    """Refuse whatever would change nothing; all of it is told at once."""
    problems = [
        f"{name}={value} does nothing in the task {recipe.task}, being for {_listed(tasks)}; "
        "leave it out"
        for name, tasks in USERS.items()
        if recipe.task not in tasks and (value := _asked(recipe, name)) is not None
    ]
    if problems:
        raise ConfigError("; ".join(problems))


def _asked(recipe: Recipe, name: str) -> Any:
    """What was asked for, if it is anything: not what is so by itself, nor smoothing of 0."""
    section, key = name.split(".")
    settings = getattr(recipe, section)
    value = getattr(settings, key)
    off = key == "label_smoothing" and value == 0
    return None if off or value == type(settings).model_fields[key].default else value


def _listed(tasks: tuple[str, ...]) -> str:
    *others, last = tasks
    return f"{', '.join(others)} and {last}" if others else last
