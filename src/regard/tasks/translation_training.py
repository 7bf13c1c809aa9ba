"""Training translators: pairs as ids, a fresh model, its objective and its validation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import compress
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import torch
from typing_extensions import override

from regard.core.errors import ConfigError
from regard.data.batch import Batch
from regard.data.examples import (
    BpeDropoutTexts,
    IdTable,
    LongRule,
    Texts,
    encode_table,
    stored_table,
    within,
)
from regard.data.pair_batches import (
    ordered_batches,
    packed_stream,
    padded_stream,
    pair_lengths,
    tiled_stream,
)
from regard.data.records import Pair
from regard.data.shard_windows import ShardedPairs
from regard.data.splits import Data, load_records
from regard.data.stream import Stream
from regard.decoding.settings import DecodeSettings
from regard.evaluation.metrics import values
from regard.models.base import SequenceModel
from regard.models.presets import build, resolve
from regard.models.settings import SequenceConfig
from regard.tasks.base import Evaluation, JudgedRun, Prepared, rehearsed
from regard.tasks.opening import (
    Tokenizers,
    begin_as,
    check_memory,
    initial_run,
    load_tokenizers,
    train_tokenizers,
)
from regard.tasks.recipe import Recipe
from regard.tasks.rewards import rewarded, without_noise
from regard.tasks.sharded import (
    open_pairs,
    shard_tokenizers,
    weights,
)
from regard.tasks.translating import (
    SourceBatch,
    check_looking,
    decode,
    decode_batches,
    length_limits,
)
from regard.tasks.translation_scores import (
    evaluate_split,
)
from regard.tasks.translator import Run
from regard.text.tokenizer import Tokenizer
from regard.training.distributed import divided
from regard.training.flops import BACKWARD, FlopFormula, flop_formula
from regard.training.losses import Objective
from regard.training.token_loss import TokenLoss, check_loss_on, reads_packed, records_padded

OWN_METRICS = ("bleu", "exact_match")
"""Of a validation, beside the loss and what the recipe names."""
VALID_SENTENCES = 200
"""So many are translated at each validation: enough for a curve, and quick."""
N_SAMPLES = 8
"""Translations that a report shows."""


class TranslationValidation:
    """An evaluator for the training loop: loss of the whole set, translations of a part of it."""

    def __init__(self, prepared: PreparedTranslation) -> None:
        training, pairs = prepared.recipe.train, prepared.data.splits["valid"][:VALID_SENTENCES]
        self.objective = TokenLoss(training)
        self.batches = ordered_batches(prepared.valid, training.batch_tokens)
        self.count = sum(batch.count for batch in self.batches)
        self.sources = [example.source for example in prepared.valid[:VALID_SENTENCES]]
        self.references = [pair.target for pair in pairs]
        self.target = prepared.tokenizers.target
        self.settings = prepared.recipe.decode.chosen(beam=1)
        self.device, self.flops = prepared.device, prepared.flops
        self.metrics = (*prepared.own_metrics, *training.metrics, *training.rewards)

    def __call__(self, model: SequenceModel) -> Mapping[str, float]:
        """``loss``, and the metrics of greedy search."""
        texts = self.write(model)
        return {"loss": self.loss(model), **values(self.metrics, texts, self.references)}

    def write(self, model: SequenceModel, settings: DecodeSettings | None = None) -> list[str]:
        """The translations of a part of the set."""
        found = decode(model, self.sources, settings or self.settings, device=self.device)
        return [self.target.decode(best[0].ids) for best in found]

    def rehearse(self, model: SequenceModel) -> float:
        """A fresh model is made to write as much as the references are."""
        mean_length = round(self.count / sum(len(batch.numbers) for batch in self.batches))
        settings = self.settings.model_copy(update={"max_len": mean_length})
        batches = decode_batches(self.sources, settings.beam, self.device)
        together = [[self.sources[number] for number in batch.numbers] for batch in batches]
        write = partial(decode, model, settings=settings, device=self.device)
        losses = rehearsed(self.batches, partial(self._loss, model), self.flops)
        return losses + rehearsed(together, write, lambda some: sum(map(len, some)))

    def loss(self, model: SequenceModel) -> float:
        """The loss per token, smoothed as in training.

        Without smoothing, a model that was told to doubt would look worse the better it learned it.
        """
        return sum(divided(self.batches, partial(self._loss, model))) / self.count

    @torch.inference_mode()
    def _loss(self, model: SequenceModel, batch: Batch) -> float:
        """The sum over a batch."""
        return self.objective(model, batch.to(self.device)).total.item()


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedTranslation(Prepared):
    """Pairs, tokenizers and a fresh translator."""

    config: SequenceConfig
    model: SequenceModel
    data: Data[Pair]
    tokenizers: Tokenizers
    pairs: Sequence[Pair]
    """Those of ``train``, in its order; none where they lie in shards."""
    train: IdTable | ShardedPairs
    valid: IdTable
    texts: Texts | ShardedPairs
    """What is trained on: ``train``, perhaps segmented anew each epoch."""
    formula: FlopFormula
    takes = "texts"

    @property
    def own_metrics(self) -> tuple[str, ...]:
        """What a validation computes of texts by itself."""
        return OWN_METRICS

    @property
    @override
    def criteria(self) -> tuple[str, ...]:
        return ("loss", *self.own_metrics)

    @property
    @override
    def size(self) -> dict[str, int]:
        return {"training pairs": len(self.train), "vocabulary": self.tokenizers.target.n_vocab}

    @property
    @override
    def vocabularies(self) -> tuple[Tokenizer, ...]:
        """Of source and target."""
        return (self.tokenizers.source, self.tokenizers.target)

    @override
    def stream(self) -> Stream:
        settings = self.recipe.train
        how: dict[str, Any] = {"batch_tokens": settings.batch_tokens, "seed": settings.seed}
        if self.same_shapes:
            return packed_stream(self.texts, **how)
        if self.few_shapes:
            return tiled_stream(self.texts, **how, longest=self.config.longest)
        return padded_stream(self.texts, **how, loss_on=self.recipe.data.loss_on)

    @property
    @override
    def same_shapes(self) -> bool:
        """Where texts lie end to end: on a GPU, if the model can read them so."""
        packed = reads_packed(self.config, self.device, self.recipe.train.precision)
        return packed and self._all_known

    @property
    @override
    def few_shapes(self) -> bool:
        """Where a step is many small kernels: on a GPU, if the model does not read packed texts.

        Sources that are predicted as well (``data.loss_on``) are padded as they come.
        """
        recorded = records_padded(self.config, self.device, self.recipe.train.precision)
        return recorded and self._all_known and self.recipe.data.loss_on == "target"

    @property
    def _all_known(self) -> bool:
        """Whether what a GPU computes is known before: no words are drawn on the way."""
        settings = self.recipe.train
        forced = settings.teacher_forcing == 1 and not settings.rewards
        return self.device.type == "cuda" and forced

    @override
    def objective(self) -> Objective:
        settings = self.recipe.train
        return rewarded(
            settings,
            TokenLoss(settings, compiled=self.compiled),
            sources=self._sources,
            references=((pair.target,) for pair in self.pairs),
            say=self.tokenizers.target.decode,
        )

    def _sources(self, model: SequenceModel, batch: Batch) -> SourceBatch:
        limits = length_limits(model, batch.source, self.recipe.decode.max_len)
        return SourceBatch(batch.source, limits, batch.numbers)

    @override
    def validation(self) -> TranslationValidation:
        return TranslationValidation(self)

    @override
    def flops(self, batch: Batch) -> float:
        """Of the texts without padding: systems that pad stand beside those that need not."""
        settings = self.recipe.train
        n_passes = 1.0
        if settings.rewards:  # samples are as long as references, about; written, then learned from
            n_passes += settings.samples * (1 + 1 / BACKWARD)
        return n_passes * self.formula.training(*pair_lengths(batch))

    @override
    def example(self, number: int) -> str:
        """Its source."""
        return self.tokenizers.source.decode(self.train[number].source)

    @property
    @override
    def test_sets(self) -> Sequence[str]:
        return self.data.test_sets

    @override
    def scored(self, run: Run, split: str) -> Evaluation:
        return evaluate_split(run, self.data, split)

    @override
    def judged(self, out: Path, test_sets: Sequence[str] | None) -> JudgedRun:
        """With some translations of each test set, two wrong ones first."""
        judged, samples = Prepared.judged(self, out, test_sets), []
        for name, evaluation in judged.evaluations.items():
            pairs = zip(self.data.splits[name], evaluation.outputs, strict=True)
            made = [(pair.source, text, pair.target) for pair, text in pairs]
            wrong = [one for one in made if one[1] != one[2]][:2]
            samples += [*wrong, *(one for one in made[:4] if one not in wrong)][: N_SAMPLES // 2]
        return replace(judged, samples=samples[:N_SAMPLES])

    @override
    def held_out(self) -> Sequence[Pair]:
        return self.data.splits["valid"]

    @override
    def learned_from(self) -> Sequence[Pair]:
        return self.data.splits.get("train", ())

    @override
    def save(self, folder: Path) -> None:
        self.tokenizers.save(folder)


def prepare_translation(
    recipe: Recipe,
    device: torch.device,
    *,
    begun: Path | None = None,
    cache: Path | None = None,
    records: str = "pair",
    long_lines: LongRule | None = None,
    kind: type[PreparedTranslation] = PreparedTranslation,
) -> PreparedTranslation:
    """Load or make the data, train tokenizers unless the run was begun, build the model.

    Where training texts come from files, their ids are kept in the folder ``cache``, if one is
    given. Another task says which ``records`` it reads and what becomes of long ones.
    """
    data, shards = load_records(recipe.data, records), recipe.data.shards
    init = initial_run(recipe, begun)
    known = begun or (None if init is None else init.path)  # the weights there know no other ids
    if known is not None:
        tokenizers = load_tokenizers(known)
    elif shards is not None:
        tokenizers = shard_tokenizers(recipe)
    else:
        tokenizers = train_tokenizers(data.splits["train"], recipe.text)
    torch.manual_seed(recipe.train.seed)
    config = resolve(
        recipe.model,
        n_source_vocab=tokenizers.source.n_vocab,
        n_target_vocab=tokenizers.target.n_vocab,
        shared_vocab=tokenizers.shared,
    )
    check_loss_on(recipe.data.loss_on, config, recipe.train)
    config, told = without_noise(config, recipe.train)
    check_memory(config, device)
    model = build(config)
    check_looking(model, recipe.decode)
    if init is not None:
        begin_as(model, config, init)
    cache = cache if recipe.data.world is None else None  # a world is made again as fast
    rule = long_lines or recipe.data.long_lines
    how = (tokenizers, config.max_len, rule)
    train: Encoded[IdTable] | Encoded[ShardedPairs]
    if shards is None:
        train = _encoded(data, "train", *how, cache)
    else:
        train = _sharded(recipe, records, *how)
    # TranslationValidation keeps its references, so its long lines are cut, never dropped.
    valid = _encoded(data, "valid", tokenizers, config.max_len, "truncate")
    return kind(
        recipe=recipe,
        data=data,
        tokenizers=tokenizers,
        pairs=train.pairs,
        train=train.table,
        valid=valid.table,
        texts=_texts(recipe, train, tokenizers, config.max_len),
        config=config,
        formula=flop_formula(model, with_source=recipe.data.loss_on == "all"),
        model=model.to(device),
        notes=(*data.notes, *train.notes, *valid.notes, *told),
        device=device,
    )


T = TypeVar("T", IdTable, ShardedPairs)


class Encoded(NamedTuple, Generic[T]):
    """Pairs that fit, their ids, and a note on those that do not fit."""

    pairs: Sequence[Pair]
    table: T
    notes: tuple[str, ...]


def _encoded(
    data: Data[Pair],
    name: str,
    tokenizers: Tokenizers,
    max_len: int,
    rule: LongRule,
    cache: Path | None = None,
) -> Encoded[IdTable]:
    """A split as ids, of at most ``max_len`` positions a side; kept in files of a ``cache``."""
    pairs, sides = data.splits[name], (tokenizers.source, tokenizers.target)
    whole = encode_table(pairs, *sides) if cache is None else stored_table(pairs, *sides, cache)
    table, n_long = within(whole, max_len, rule)
    if n_long and rule == "drop":
        pairs = list(compress(pairs, whole.fits(max_len)))
    verb = "cut to" if rule == "truncate" else "left out, being longer than"
    note = f"{name}: {n_long} pairs {verb} max_len={max_len} tokens"
    return Encoded(pairs, table, (note,) if n_long else ())


def _sharded(
    recipe: Recipe, records: str, tokenizers: Tokenizers, max_len: int, rule: LongRule
) -> Encoded[ShardedPairs]:
    """Training pairs in the shards of a recipe. Their texts are not at hand, but as ids."""
    needed = {"text.bpe_dropout": recipe.text.bpe_dropout, "train.rewards": recipe.train.rewards}
    if asked := [name for name, value in needed.items() if value]:
        raise ConfigError(
            f"{' and '.join(asked)} needs the texts of all pairs, and data.shards has their ids; "
            "leave out one of them"
        )
    folder = open_pairs(recipe, records, tokenizers, max_len, rule)
    settings = {"seed": recipe.train.seed, "window_tokens": recipe.data.window_tokens}
    return Encoded((), ShardedPairs(folder, weights(recipe), **settings), folder.manifest.notes)


def _texts(
    recipe: Recipe,
    train: Encoded[IdTable] | Encoded[ShardedPairs],
    tokenizers: Tokenizers,
    max_len: int,
) -> Texts | ShardedPairs:
    """What is trained on."""
    share, sides = recipe.text.bpe_dropout, (tokenizers.source, tokenizers.target)
    if not share or not isinstance(train.table, IdTable):
        return train.table
    for tokenizer in sides:
        if tokenizer.kind != "bpe":
            raise ConfigError(
                f"text.bpe_dropout={share} needs a tokenizer of kind 'bpe', but that of "
                f"{recipe.train.init} is of kind {tokenizer.kind!r}; set it to 0"
            )
    seed = recipe.train.seed
    return BpeDropoutTexts(train.pairs, train.table, sides, share=share, seed=seed, max_len=max_len)
