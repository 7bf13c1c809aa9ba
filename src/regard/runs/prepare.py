"""From a recipe to all that training needs, before the first step."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from regard.checkpoints.run_folder import RunFolder, fill, read_weights
from regard.data.batches import Batch, BatchStream, Example
from regard.models.base import SequenceConfig, SequenceModel
from regard.models.presets import build, resolve
from regard.recipes.recipe import Recipe
from regard.runs.data import Data, encode_within, load_data
from regard.runs.memory import check_memory
from regard.runs.tokenizers import Tokenizers, load_tokenizers, train_tokenizers
from regard.runs.translation import Validation
from regard.training.flops import FlopFormula, flop_formula


@dataclass(frozen=True, slots=True)
class Prepared:
    """Data, tokenizers and a fresh model."""

    recipe: Recipe
    data: Data
    tokenizers: Tokenizers
    train: list[Example]
    valid: list[Example]
    config: SequenceConfig
    model: SequenceModel
    formula: FlopFormula
    notes: tuple[str, ...]
    device: torch.device

    def stream(self) -> BatchStream:
        """The batches of this recipe, from the first."""
        settings = self.recipe.train
        return BatchStream(self.train, batch_tokens=settings.batch_tokens, seed=settings.seed)

    def validation(self) -> Validation:
        """The evaluator that training is given."""
        return Validation(
            self.valid,
            [pair.target for pair in self.data.splits["valid"]],
            self.tokenizers,
            self.recipe.decode,
            training=self.recipe.train,
            device=self.device,
        )

    def flops(self, batch: Batch) -> float:
        """What a training step on a batch costs, its padding included."""
        n_rows, n_source = batch.source.shape
        return self.formula.training(n_rows, n_source, batch.target_in.shape[1])


def prepare(recipe: Recipe, device: torch.device, tokenizers: Tokenizers | None = None) -> Prepared:
    """Load or make the data, train tokenizers unless there are some, build the model.

    Draws from torch's default generator, which is left where the first training step begins.
    """
    data = load_data(recipe.data)
    pairs = data.splits["train"]
    init = None if recipe.train.init is None else RunFolder(Path(recipe.train.init))
    if tokenizers is None and init is not None:
        tokenizers = load_tokenizers(init.path)  # its weights know no other ids
    if tokenizers is None:
        tokenizers = train_tokenizers(pairs, recipe.text)
    torch.manual_seed(recipe.train.seed)
    config = resolve(
        recipe.model,
        n_source_vocab=tokenizers.source.n_vocab,
        n_target_vocab=tokenizers.target.n_vocab,
        shared_vocab=tokenizers.shared,
    )
    check_memory(config, device)
    model = build(config)
    if init is not None:
        fill(model, read_weights(init), str(init.weights))
    max_len, rule = config.max_len, recipe.data.long_lines
    train, notes = encode_within(pairs, tokenizers, max_len=max_len, rule=rule, name="train")
    # Validation keeps its references, so its long lines are cut, never dropped.
    valid, more = encode_within(
        data.splits["valid"], tokenizers, max_len=max_len, rule="truncate", name="valid"
    )
    return Prepared(
        recipe=recipe,
        data=data,
        tokenizers=tokenizers,
        train=train,
        valid=valid,
        config=config,
        formula=flop_formula(model),
        model=model.to(device),
        notes=(*data.notes, *notes, *more),
        device=device,
    )
