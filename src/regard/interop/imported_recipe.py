"""The recipe of a run that was imported: what its model is, and how it could train on."""

from __future__ import annotations

from typing import Any

from regard.checkpoints.run_folder import RunFolder, save_settings
from regard.models.base import ModelConfig
from regard.models.settings import ModelSettings, TaskName
from regard.recipes.recipe import recipe_from
from regard.text.settings import N_BYTES
from regard.text.specials import SPECIALS

TRAIN = {"max_steps": 1000, "lr": 1e-4, "warmup_steps": 100}


def save_recipe(
    folder: RunFolder,
    config: ModelConfig,
    *,
    preset: str,
    n_vocab: int,
    task: TaskName = "translation",
    **sections: dict[str, Any],
) -> None:
    """Write the recipe that describes a model; ``sections`` say what only its kind has.

    The training file is a name without a file: whoever trains on gives their own.
    """
    known = config.model_dump(include=set(ModelSettings.model_fields), exclude_none=True)
    file = "train.txt" if task in ("language", "masked") else "train.tsv"
    least = N_BYTES + len(SPECIALS)  # what settings of pieces ask for
    asked = {
        "task": task,
        "model": {"preset": preset, **known},
        "train": TRAIN,
        **sections,
        "data": {"train": file, **sections.get("data", {})},
        "text": {"kind": "bpe", "vocab_size": max(n_vocab, least), **sections.get("text", {})},
    }
    save_settings(folder, recipe_from(asked, "the imported run").model_dump(mode="json"))
