"""Recipes from plain data, and those that runs were asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from regard.checkpoints.run_folder import RunFolder, load_settings
from regard.core.errors import CheckpointError, ConfigError
from regard.core.plugins import require_plugins
from regard.core.settings import parse
from regard.core.state import is_noted, note
from regard.data.settings import DataSettings
from regard.models.presets import PRESETS, presets_for
from regard.tasks.base import TASKS
from regard.tasks.settings import SECTIONS, Recipe

__all__ = ["SECTIONS", "Recipe", "meant_task", "recipe_from", "recipe_in", "remember_data"]

DATA = "data"
"""What notes about the data of runs are called."""
NO_FILES = {
    *("world", "direction", "folder", "pattern", "prompt", "question_kind", "fit", "resample"),
    *("augment", "language", "long_lines", "loss_on"),
}
"""Settings of data whose texts are no names of files; of any other they may be."""


def recipe_from(raw: Mapping[str, Any], called: str = "the recipe") -> Recipe:
    """A recipe from plain data; all problems are told at once."""
    return parse(Recipe, {**raw, **meant_task(raw)}, "", whole=called)


def meant_task(raw: Mapping[str, Any]) -> dict[str, str]:
    """The task whose models have the preset, where the one that is named stands for several."""
    name, model = raw.get("task"), raw.get("model")
    preset = model.get("preset") if isinstance(model, Mapping) else None
    if not isinstance(name, str) or name not in TASKS or preset not in PRESETS:
        return {}
    if preset in presets_for(TASKS[name].config):
        return {}
    meant = (task for task in TASKS.values() if task.plain_name == name)
    return next(({"task": x.name} for x in meant if preset in presets_for(x.config)), {})


def recipe_in(folder: RunFolder) -> Recipe:
    """What a run was asked for; the plug-ins that it needs must have been loaded."""
    raw = load_settings(folder)
    if isinstance(names := raw.get("plugins"), list):
        require_plugins(map(str, names), f"the run {folder.path}")
    try:
        recipe = recipe_from(raw)
    except ConfigError as error:
        raise CheckpointError(f"{folder.settings} cannot be used: {error}") from error
    if _is_trusted(folder.path, recipe.data):
        return recipe
    return recipe.model_copy(update={"data": recipe.data.distrusted(str(folder.path))})


def remember_data(folder: Path, data: DataSettings) -> None:
    """Note that the run of this folder is this user's, or trusted, and has this data."""
    if not _is_trusted(folder, data):
        note(DATA, *_facts(folder, data))


def _is_trusted(folder: Path, data: DataSettings) -> bool:
    """Whether data may be read: a world, files in the run folder, or what this user noted."""
    home, beside = folder.resolve(), Path(data.folder or "")
    said = data.model_dump(mode="json", exclude=NO_FILES, exclude_defaults=True)
    inside = all(_is_inside(beside / one, home) for one in _texts(said))
    return inside or is_noted(DATA, *_facts(folder, data))


def _is_inside(path: Path, home: Path) -> bool:
    """Whether a name means something in a folder, itself: a pattern may go through a link, and what
    is missing may be found with another ending."""
    return path.exists() and path.resolve().is_relative_to(home)


def _texts(found: Any) -> Iterator[str]:
    """Every text in plain data."""
    if isinstance(found, str):
        yield found
    elif isinstance(found, dict | list):
        for one in found.values() if isinstance(found, dict) else found:
            yield from _texts(one)


def _facts(folder: Path, data: DataSettings) -> tuple[Any, ...]:
    said = data.model_dump(mode="json", exclude_defaults=True)  # later versions may say more
    return str(folder.resolve()), said
