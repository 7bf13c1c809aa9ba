"""A language model before its first step: fresh, or begun as that of another run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import torch

from regard.checkpoints.run_folder import RunFolder, fill, load_config, load_model
from regard.core.errors import CheckpointError, ConfigError
from regard.core.settings import parse
from regard.models.decoder import DecoderConfig, LanguageModel
from regard.models.presets import build, resolve_for
from regard.recipes.recipe import Recipe
from regard.runs.memory import check_memory
from regard.runs.tokenizers import load_tokenizer
from regard.text.chat import TEMPLATE
from regard.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class BegunLanguage:
    """A language model before its first step, and how it reads."""

    model: LanguageModel
    tokenizer: Tokenizer
    template: str | None
    """How conversations are written down for it, where it knows them."""
    notes: tuple[str, ...]


def begin_language(
    recipe: Recipe, texts: Sequence[str], device: torch.device, begun: Path | None
) -> BegunLanguage:
    """Tokenizer and model: fresh ones, or those of ``train.init``.

    A run begun keeps its tokenizer and its configuration; its weights are in its snapshots, and
    what became of ``train.init`` does not matter.

    Draws from torch's default generator, which is left where the first training step begins.
    """
    init = recipe.train.init
    known = begun or (None if init is None else Path(init))  # the weights there know no other ids
    tokenizer = Tokenizer.train(texts, recipe.text) if known is None else load_tokenizer(known)
    torch.manual_seed(recipe.train.seed)
    if begun is not None:
        return _again(begun, tokenizer, device)
    if init is not None:
        return _from_run(recipe, RunFolder(Path(init)), tokenizer, device)
    config = resolve_for("language", recipe.model, n_vocab=tokenizer.n_vocab)
    check_memory(config, device)
    return BegunLanguage(cast("LanguageModel", build(config)), tokenizer, None, ())


def _again(begun: Path, tokenizer: Tokenizer, device: torch.device) -> BegunLanguage:
    """A model as that of the run that goes on; its weights come from a snapshot."""
    config = load_config(RunFolder(begun))
    check_memory(config, device)
    model = cast("LanguageModel", build(config))
    return BegunLanguage(model, tokenizer, _template(begun), ())


def _from_run(
    recipe: Recipe, init: RunFolder, tokenizer: Tokenizer, device: torch.device
) -> BegunLanguage:
    """The model of a run, changed by what the recipe says of it beyond preset and size."""
    old = load_model(init)
    if not isinstance(old, LanguageModel):
        family = getattr(getattr(old, "config", None), "family", "unknown")
        raise ConfigError(
            f"train.init: {init.path} holds a model of the family {family!r}, and this needs a "
            "language model"
        )
    asked = {**old.config.model_dump(), **recipe.model.given()}
    config = parse(DecoderConfig, asked, "model")
    check_memory(config, device)
    model = LanguageModel(config)
    weights = {name: weight.detach() for name, weight in old.named_parameters()}
    try:
        fill(model, weights, f"train.init: what {init.path} holds")
    except CheckpointError as error:
        raise CheckpointError(
            f"{error}; leave the sizes out of the section model, they come with the run"
        ) from None
    note = f"the model begins as that of {init.path}"
    return BegunLanguage(model, tokenizer, _template(init.path), (note,))


def _template(folder: Path) -> str | None:
    path = folder / TEMPLATE
    return path.read_text(encoding="utf-8") if path.exists() else None
