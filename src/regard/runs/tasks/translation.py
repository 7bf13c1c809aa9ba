"""A translator before its first step: from a recipe to all that training needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from regard.checkpoints.run_folder import RunFolder, fill, read_weights
from regard.core.errors import ConfigError
from regard.data.batch import Batch
from regard.data.bpe_dropout import BpeDropoutTexts
from regard.data.examples import Table, Texts
from regard.data.pair_batches import packed_stream, padded_stream, text_lengths
from regard.data.stream import Stream
from regard.models.base import SequenceConfig, SequenceModel
from regard.models.presets import build, resolve
from regard.recipes.recipe import Recipe
from regard.runs.data import Data, Encoded, encode_within, load_data
from regard.runs.evaluate import evaluate_split
from regard.runs.kinds.translator import load_translator
from regard.runs.memory import check_memory
from regard.runs.objective import TokenLoss
from regard.runs.prepared import SHORT, Judged, Prepared
from regard.runs.reports.translation import write_report
from regard.runs.tokenizers import Tokenizers, load_tokenizers, train_tokenizers
from regard.runs.translation import Validation
from regard.text.tokenizer import Tokenizer
from regard.training.flops import FlopFormula, flop_formula


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedTranslation(Prepared):
    """Pairs, tokenizers and a fresh translator."""

    config: SequenceConfig
    model: SequenceModel
    data: Data
    tokenizers: Tokenizers
    train: Table
    valid: Table
    texts: Texts
    """What is trained on: ``train``, perhaps segmented anew each epoch."""
    formula: FlopFormula

    @property
    def size(self) -> dict[str, int]:
        """As ``Prepared.size``."""
        return {"training pairs": len(self.train), "vocabulary": self.tokenizers.target.n_vocab}

    @property
    def criteria(self) -> tuple[str, ...]:
        """As ``Prepared.criteria``."""
        return ("loss", "bleu")

    @property
    def vocabularies(self) -> tuple[Tokenizer, ...]:
        """As ``Prepared.vocabularies``: of source and target."""
        return (self.tokenizers.source, self.tokenizers.target)

    def stream(self) -> Stream:
        """As ``Prepared.stream``."""
        settings = self.recipe.train
        kind = packed_stream if self.packed else padded_stream
        return kind(self.texts, batch_tokens=settings.batch_tokens, seed=settings.seed)

    @property
    def packed(self) -> bool:
        """Whether texts lie end to end: on a GPU, where the model can read them so."""
        forced = self.recipe.train.teacher_forcing == 1
        return self.device.type == "cuda" and self.config.packs and forced

    @property
    def compiled(self) -> bool:
        """As ``Prepared.compiled``; by default on packed texts, unless the run is short."""
        settings = self.recipe.train
        if settings.compile != "auto":
            return settings.compile
        return self.packed and (settings.max_steps or SHORT) >= SHORT

    @property
    def captured(self) -> bool:
        """As ``Prepared.captured``."""
        return self.compiled and self.packed and self.recipe.train.accumulate == 1

    def objective(self) -> TokenLoss:
        """As ``Prepared.objective``."""
        return TokenLoss(self.recipe.train, compiled=self.compiled)

    def validation(self) -> Validation:
        """As ``Prepared.validation``."""
        return Validation(
            self.valid,
            [pair.target for pair in self.data.splits["valid"]],
            self.tokenizers,
            self.recipe.decode,
            training=self.recipe.train,
            device=self.device,
        )

    def flops(self, batch: Batch) -> float:
        """As ``Prepared.flops``."""
        if batch.packed:
            bounds = (batch.source_bounds, batch.target_bounds)
            return self.formula.training_each(*map(text_lengths, bounds))
        n_rows, n_source = batch.source.shape
        return self.formula.training(n_rows, n_source, batch.target_in.shape[1])

    def example(self, number: int) -> str:
        """As ``Prepared.example``: its source."""
        return self.tokenizers.source.decode(self.train[number].source)

    def judged(self, out: Path, test_sets: Sequence[str] | None) -> Judged:
        """As ``Prepared.judged``."""
        run = load_translator(out, device=str(self.device))
        names = self.data.test_sets if test_sets is None else test_sets
        return Judged(run, {name: evaluate_split(run, self.data, name) for name in names})

    def report(self, judged: Judged, facts: Mapping[str, Any]) -> None:
        """As ``Prepared.report``."""
        write_report(judged.run, self.data, judged.evaluations, facts)

    def save(self, folder: Path) -> None:
        """As ``Prepared.save``."""
        self.tokenizers.save(folder)


def prepare_translation(
    recipe: Recipe, device: torch.device, *, begun: Path | None = None, cache: Path | None = None
) -> PreparedTranslation:
    """Load or make the data, train tokenizers unless the run was begun, build the model.

    Where training texts come from files, their ids are kept in the folder ``cache``, if one is
    given.

    Draws from torch's default generator, which is left where the first training step begins.
    """
    data = load_data(recipe.data)
    pairs = data.splits["train"]
    init = None if recipe.train.init is None else RunFolder(Path(recipe.train.init))
    known = begun or (None if init is None else init.path)  # the weights there know no other ids
    tokenizers = train_tokenizers(pairs, recipe.text) if known is None else load_tokenizers(known)
    torch.manual_seed(recipe.train.seed)
    config = resolve(
        recipe.model,
        n_source_vocab=tokenizers.source.n_vocab,
        n_target_vocab=tokenizers.target.n_vocab,
        shared_vocab=tokenizers.shared,
    )
    check_memory(config, device)
    model = build(config)
    if init is not None and begun is None:  # snapshots hold all weights
        fill(model, read_weights(init), str(init.weights))
    max_len, rule = config.max_len, recipe.data.long_lines
    cache = cache if recipe.data.world is None else None  # a world is made again as fast
    train = encode_within(pairs, tokenizers, max_len=max_len, rule=rule, name="train", cache=cache)
    # Validation keeps its references, so its long lines are cut, never dropped.
    valid = encode_within(
        data.splits["valid"], tokenizers, max_len=max_len, rule="truncate", name="valid"
    )
    return PreparedTranslation(
        recipe=recipe,
        data=data,
        tokenizers=tokenizers,
        train=train.table,
        valid=valid.table,
        texts=_texts(recipe, train, tokenizers, max_len),
        config=config,
        formula=flop_formula(model),
        model=model.to(device),
        notes=(*data.notes, *train.notes, *valid.notes),
        device=device,
    )


def _texts(recipe: Recipe, train: Encoded, tokenizers: Tokenizers, max_len: int) -> Texts:
    """What is trained on."""
    share = recipe.text.bpe_dropout
    if not share:
        return train.table
    for tokenizer in (tokenizers.source, tokenizers.target):
        if tokenizer.kind != "bpe":
            raise ConfigError(
                f"text.bpe_dropout={share} needs a tokenizer of kind 'bpe', but that of "
                f"{recipe.train.init} is of kind {tokenizer.kind!r}; set it to 0"
            )
    return BpeDropoutTexts(
        train.pairs,
        train.table,
        (tokenizers.source, tokenizers.target),
        share=share,
        seed=recipe.train.seed,
        max_len=max_len,
    )
