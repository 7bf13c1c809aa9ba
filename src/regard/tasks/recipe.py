"""Recipes from plain data, and those that runs were asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from regard.checkpoints.run_folder import RunFolder, load_settings
from regard.core.errors import CheckpointError, ConfigError
from regard.core.plugins import require_plugins
from regard.core.settings import parse
from regard.models.presets import PRESETS, presets_for
from regard.tasks.base import TASKS
from regard.tasks.settings import SECTIONS, Recipe

__all__ = ["SECTIONS", "Recipe", "meant_task", "recipe_from", "recipe_in"]


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
        return recipe_from(raw)
    except ConfigError as error:
        raise CheckpointError(f"{folder.settings} cannot be used: {error}") from error
