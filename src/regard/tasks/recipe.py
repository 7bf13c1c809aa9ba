"""A recipe: everything that is asked of a run, in five sections."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from regard.checkpoints.run_folder import RunFolder, load_settings
from regard.core.errors import CheckpointError, ConfigError
from regard.core.plugins import require_plugins
from regard.core.settings import parse
from regard.data.settings import DataSettings
from regard.decoding.settings import DecodeSettings
from regard.models.presets import ModelSettings
from regard.text.settings import TextSettings
from regard.training.settings import TrainSettings


class Recipe(BaseModel):
    """A YAML file, checked."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    task: str = Field("translation", description="What is learned: an entry of TASKS.")
    plugins: tuple[str, ...] = Field(
        (), description="Files or modules that bring tasks, models and so on of others."
    )
    data: DataSettings = Field(description="What to learn from.")
    text: TextSettings = Field(TextSettings.model_construct(), description="How text becomes ids.")
    model: ModelSettings = Field(ModelSettings.model_construct(), description="What learns.")
    train: TrainSettings = Field(description="How it learns.")
    decode: DecodeSettings = Field(DecodeSettings.model_construct(), description="How it writes.")


SECTIONS = tuple(name for name in Recipe.model_fields if name not in ("task", "plugins"))


def recipe_from(raw: Mapping[str, Any], called: str = "the recipe") -> Recipe:
    """A recipe from plain data; all problems are told at once."""
    return parse(Recipe, raw, "", whole=called)


def recipe_in(folder: RunFolder) -> Recipe:
    """What a run was asked for; the plug-ins that it needs must have been loaded."""
    raw = load_settings(folder)
    if isinstance(names := raw.get("plugins"), list):
        require_plugins(map(str, names), f"the run {folder.path}")
    try:
        return recipe_from(raw)
    except ConfigError as error:
        raise CheckpointError(f"{folder.settings} cannot be used: {error}") from error
