"""From a recipe to all that training needs, before the first step."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch

from regard.core.registry import Registry
from regard.recipes.recipe import Recipe
from regard.runs.prepared import Prepared
from regard.runs.tasks.classification import prepare_classification
from regard.runs.tasks.language import prepare_language
from regard.runs.tasks.masked import prepare_masked
from regard.runs.tasks.similarity import prepare_similarity
from regard.runs.tasks.translation import prepare_translation

PREPARE: Registry[Callable[..., Prepared]] = Registry("task")
PREPARE.add("translation")(prepare_translation)
PREPARE.add("classification")(prepare_classification)
PREPARE.add("similarity")(prepare_similarity)
PREPARE.add("masked")(prepare_masked)
PREPARE.add("language")(prepare_language)


def prepare(
    recipe: Recipe, device: torch.device, *, begun: Path | None = None, cache: Path | None = None
) -> Prepared:
    """Data and a fresh model, as the recipe's task wants them.

    A run that was ``begun`` keeps its tokenizers. What can be kept of the data goes into ``cache``.
    """
    return PREPARE[recipe.task](recipe, device, begun=begun, cache=cache)
