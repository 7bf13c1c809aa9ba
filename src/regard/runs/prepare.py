"""From a recipe to all that training needs, before the first step."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch

from regard.core.errors import ConfigError
from regard.core.registry import Registry
from regard.recipes.recipe import Recipe
from regard.runs.prepared import Prepared
from regard.runs.tasks.answering import prepare_answers
from regard.runs.tasks.classification import prepare_classification
from regard.runs.tasks.language import prepare_language
from regard.runs.tasks.masked import prepare_masked
from regard.runs.tasks.similarity import prepare_similarity
from regard.runs.tasks.translation import prepare_translation
from regard.runs.tasks.unused import check_used
from regard.runs.word_vectors import with_vectors

PREPARE: Registry[Callable[..., Prepared]] = Registry("task")
PREPARE.add("translation")(prepare_translation)
PREPARE.add("classification")(prepare_classification)
PREPARE.add("similarity")(prepare_similarity)
PREPARE.add("masked")(prepare_masked)
PREPARE.add("answers")(prepare_answers)
PREPARE.add("language")(prepare_language)


def prepare(
    recipe: Recipe, device: torch.device, *, begun: Path | None = None, cache: Path | None = None
) -> Prepared:
    """Data and a fresh model, as the recipe's task wants them.

    A run that was ``begun`` keeps its tokenizers, and its weights are known: word vectors are
    needed by a fresh one only. What can be kept of the data goes into ``cache``.
    """
    check_used(recipe)
    prepared = PREPARE[recipe.task](recipe, device, begun=begun, cache=cache)
    if recipe.train.criterion not in prepared.criteria:
        raise ConfigError(
            f"train.criterion={recipe.train.criterion} is for other tasks; with this data, "
            f"{recipe.task} has {' and '.join(prepared.criteria)}"
        )
    return prepared if begun is not None else with_vectors(prepared)
