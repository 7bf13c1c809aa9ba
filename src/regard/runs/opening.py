"""What opening any run folder needs: its recipe, and a tokenizer that belongs to its model."""

from __future__ import annotations

from regard.checkpoints.run_folder import RunFolder, load_settings
from regard.core.errors import CheckpointError, ConfigError
from regard.recipes.recipe import Recipe, recipe_from
from regard.text.tokenizer import Tokenizer


def recipe_in(folder: RunFolder) -> Recipe:
    """What a run was asked for."""
    try:
        return recipe_from(load_settings(folder))
    except ConfigError as error:
        raise CheckpointError(f"{folder.settings} cannot be used: {error}") from error


def check_vocabulary(
    folder: RunFolder, tokenizer: Tokenizer, n_vocab: int, *, of: str = "", spare: bool = False
) -> None:
    """A tokenizer of another run would read and write nonsense, or ids the model has not.

    A model may have ``spare`` rows, which no token needs; ``of`` says which tokenizer it is.
    """
    found = tokenizer.n_vocab
    if found > n_vocab or (found < n_vocab and not spare):
        raise CheckpointError(
            f"{folder.path} has a {of}tokenizer of {found:,} tokens, but its model knows "
            f"{n_vocab:,}: they belong to different runs"
        )
