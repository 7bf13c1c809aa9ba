"""A recipe: everything that is asked of a run, in five sections."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from regard.data.settings import DataSettings
from regard.decoding.settings import DecodeSettings
from regard.models.presets import ModelSettings
from regard.text.settings import TextSettings
from regard.training.settings import TrainSettings


def _with_base(schema: dict[str, Any]) -> None:
    """Recipes in files may build on another, which then has the sections that they lack."""
    schema["properties"]["base"] = {
        "type": "string",
        "description": "A built-in recipe, or a file beside this one, that this one changes.",
    }
    schema["anyOf"] = [{"required": schema.pop("required")}, {"required": ["base"]}]


class Recipe(BaseModel):
    """A YAML file, checked."""

    model_config = ConfigDict(extra="forbid", frozen=True, json_schema_extra=_with_base)

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
