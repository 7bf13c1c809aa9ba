"""What every run tells of itself, whatever its task."""

from __future__ import annotations

from typing import Any

from torch import nn

from regard.models.base import ModelConfig
from regard.models.presets import n_parameters
from regard.recipes.recipe import Recipe


def common_facts(recipe: Recipe, model: nn.Module, config: ModelConfig) -> dict[str, Any]:
    """What was trained, as plain data."""
    return {
        "model": config.model_dump(mode="json"),
        "preset": recipe.model.preset,
        "parameters": n_parameters(model),
        "task": recipe.task,
    }
