"""Encoders: what their runs can do whatever their task is: read, give vectors, be looked into."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from typing_extensions import override

from regard.checkpoints.run_folder import RunFolder
from regard.core.errors import ConfigError, DataError
from regard.data.examples import Column, Example, IdTable, Ints
from regard.data.records import Labelled
from regard.data.row_batches import Layout, ordered_rows
from regard.data.splits import load_records
from regard.inspection.capture import POOL
from regard.inspection.edits import edited
from regard.inspection.records import recorded_call
from regard.models.encoder import Encoder
from regard.tasks import edits
from regard.tasks.base import Evaluation
from regard.tasks.importance import ForcedAnswer, copies_of, shares_of, unweighed
from regard.tasks.look import Look, Prediction, check_length
from regard.tasks.opening import (
    TrainedRun,
    check_vocabulary,
    load_tokenizer,
    one_or_many,
    open_run,
    several,
)
from regard.tasks.recipe import Recipe
from regard.tasks.texts import Reading, batched, padded, special_ids
from regard.text.tokenizer import Tokenizer
from regard.training.distributed import divided

READ_TOKENS = 4096
"""Padded tokens that are read at once."""
TAB = "\t"
"""Between the two texts of a pair."""
Vectors = NDArray[np.float32]
Texts = Sequence[str | tuple[str, str]]
"""Texts, or pairs of them."""


class NearText(NamedTuple):
    """A text, and the cosine of its vector with that of the query."""

    text: str
    score: float


@dataclass(frozen=True, slots=True)
class EncoderInput:
    """A text or a pair as an encoder reads it."""

    ids: tuple[int, ...]
    segments: tuple[int, ...]
    cut: bool
    """Whether it was longer than the model can read."""
    texts: tuple[str, ...]


class Chosen(NamedTuple):
    """Tokens, or a label, that came out of a text."""

    tokens: tuple[str, ...]
    ids: tuple[int, ...]
    rows: tuple[int, ...] | None = None
    """Where each stands in the text; None: a label is of the whole text."""

    def shares(self, output: Tensor) -> Tensor:
        """How probable they are by what the head gives for n copies of the text -> (n, T)."""
        logits = output[:, None] if self.rows is None else output[:, list(self.rows)]
        return shares_of(logits, torch.tensor(self.ids, dtype=torch.long, device=logits.device))


def texts_of(examples: Sequence[Labelled]) -> list[str | tuple[str, str]]:
    """The texts of examples, or their pairs."""
    return [one.text if one.other is None else (one.text, one.other) for one in examples]


def encode_texts(texts: Texts, tokenizer: Tokenizer) -> IdTable:
    """Texts, or pairs of them, as ids; the second of a text alone is empty."""
    pairs = [(one, "") if isinstance(one, str) else one for one in texts]
    sides = ([first for first, _ in pairs], [second for _, second in pairs])
    return IdTable(*(Column.joined(tokenizer.encode_batch(side)) for side in sides))


@dataclass(frozen=True, slots=True, repr=False)
class EncoderRun(TrainedRun, ABC):
    """A trained encoder with all it needs to be used."""

    records: ClassVar[str] = "text"
    """What a line of its data is: a ``text``, one with a ``label``, a ``score``, a ``question``."""
    folder: RunFolder
    recipe: Recipe
    tokenizer: Tokenizer
    model: Encoder
    device: torch.device

    @property
    @override
    def reader(self) -> Tokenizer:
        return self.tokenizer

    @property
    def layout(self) -> Layout:
        """How texts are laid out for the model."""
        return Layout(self.tokenizer.specials, self.model.config.max_len)

    def embed(self, texts: str | Sequence[str], *, normalised: bool = True) -> Vectors:
        """The mean of each text's vectors: str -> (d,), list -> (n, d).

        Each has length 1, so that a product of two is their cosine; with ``normalised=False`` it
        is as the model gives it. What is longer than the model can read is cut.
        """
        found = self.pooled(one_or_many(texts)).numpy()
        if normalised:
            found = found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-12)
        return found[0] if isinstance(texts, str) else found

    def nearest(
        self, query: Any, texts: Sequence[str], n: int = 5, *, among: Vectors | None = None
    ) -> Any:
        """The ``n`` texts nearest to a query, or to each of a list: ``NearText(text, score)``.

        ``among`` are the vectors of the texts, where they are known already.
        """
        if n < 1:
            raise ConfigError(f"n={n} texts were asked for; ask for at least 1")
        known = several(texts)
        vectors = self.embed(known) if among is None else among
        found = [
            [NearText(known[i], float(row[i])) for i in np.argsort(-row, kind="stable")[:n]]
            for row in self.embed(one_or_many(query)) @ vectors.T
        ]
        return found[0] if isinstance(query, str) else found

    def n_cut(self, texts: Texts) -> int:
        """How many of the texts, or pairs of them, are longer than the model reads."""
        return self.layout.cut(encode_texts(texts, self.tokenizer))[1]

    def table(self, texts: Texts) -> IdTable:
        """Texts, or pairs of texts, as ids that fit."""
        return self.layout.cut(encode_texts(texts, self.tokenizer))[0]

    def pooled(self, texts: Texts) -> Tensor:
        """The mean of the vectors of each text, or pair (n, d)."""
        return self.read(self.table(texts), self.model.pooled, self.model.config.d_model)

    @torch.inference_mode()
    def read(self, table: IdTable, reading: Callable[..., Tensor], width: int) -> Tensor:
        """What a reading of ids and segments gives for each text (n, width), in their order."""
        parts = ordered_rows(table, self.layout, READ_TOKENS) if len(table) else []

        def read(rows: Ints) -> Tensor:
            ids, segments = self.layout.texts(table, rows)
            given = reading(*self.model.inputs(ids.to(self.device), segments.to(self.device)))
            return given.float().cpu()

        found = torch.zeros(len(table), width)
        for rows, given in zip(parts, divided(parts, read), strict=True):
            found[torch.from_numpy(rows)] = given
        return found

    def readings(self, texts: Texts) -> Iterator[Reading]:
        """Texts or pairs in batches, longest first, as heads are measured on them."""
        table, config = self.table(texts), self.model.config
        rows = [self.layout.row(table.source[i], table.target[i]) for i in range(len(table))]
        for some in batched([ids for ids, _ in rows], config.n_self_heads):
            n = len(some[0][1])
            ids = padded([ids for _, ids in some], n, config.pad_id)
            segments = padded([rows[i][1][:n] for i, _ in some], n, 0)
            yield Reading(
                self.model.inputs(ids, segments), special_ids(some, self.tokenizer.specials)
            )

    def explain(self, text: str, other: str | None = None, edit: Any = ()) -> Look:
        """Where every attention looks while a text is read, and what comes out of it.

        A run that takes pairs is given its second text as ``other``, or behind a tab. An ``edit``,
        or several, as objects or JSON (``regard.tasks.edits``), asks what would be if: the model
        reads under it, and is as before afterwards.
        """
        changes = edits.edits_from(edit)
        source, laid = self._looked_into(text, other, changes)
        with edited(self.model, edits.of_model(changes)):
            output, found = recorded_call(self.model, *self._inputs(laid))
        edits.check_keys(changes, found)
        outcome = self.outcome(output[0], laid)
        most = self.model.config.max_len
        cut = f"the text is longer than the {most:,} tokens that the model reads: it was cut"
        return Look.of(
            found,
            changes,
            source=source,
            source_tokens=tuple(self.tokenizer.tokens(laid.ids)),
            target_tokens=(outcome.text,) if POOL in found else (),
            answer=outcome.text,
            warnings=(*self.unknown_warnings(source), *([cut] if laid.cut else [])),
            task=self.task,
            outcome=outcome,
        )

    @override
    def fixed_answer(self, source: str, other: str | None = None, edit: Any = ()) -> ForcedAnswer:
        changes = edits.edits_from(edit)
        _, laid = self._looked_into(source, other, changes)
        inputs, changed = self._inputs(laid), edits.of_model(changes)
        with torch.inference_mode(), edited(self.model, changed):
            output = self.model(*inputs)
        chosen = self.chosen(output[0], laid)

        def judge(n: int) -> Tensor:
            return chosen.shares(self.model(*(copies_of(one, n) for one in inputs)))

        return ForcedAnswer(self.model, chosen.tokens, judge, output.numel(), changed)

    def chosen(self, output: Tensor, laid: EncoderInput) -> Chosen:
        """What came out of a text, given what the head makes of it."""
        raise unweighed(self.task)

    def _looked_into(
        self, text: str, other: str | None, changes: Sequence[edits.AnyEdit]
    ) -> tuple[str, EncoderInput]:
        """A text, or a pair with a tab between, after all swaps, and as the model reads it."""
        if any(isinstance(change, edits.ForceToken) for change in changes):
            raise ConfigError(
                "force_token: this run reads and writes nothing, so no token is forced"
            )
        edits.refuse_patches(changes)
        source = edits.swapped(self._source(text, other), changes)
        if (why := self.nothing_known(source)) is not None:
            raise DataError(why)
        laid = self._laid([source] if self.takes_pairs is False else source.split(TAB, 1))
        check_length(self.model.config, len(laid.ids))
        return source, laid

    def _inputs(self, laid: EncoderInput) -> tuple[Tensor, ...]:
        """What the model is given of one text."""
        ids, kinds = (torch.tensor([row], device=self.device) for row in (laid.ids, laid.segments))
        return self.model.inputs(ids, kinds)

    def _source(self, text: str, other: str | None) -> str:
        """The text, or both with a tab between them."""
        for one in (text, "" if other is None else other):
            if not isinstance(one, str):
                raise DataError(f"explain takes texts, got {type(one).__name__}")
        if self.takes_pairs and other is None and TAB not in text:
            raise DataError("this run reads pairs of texts: give two, or a tab between them")
        if self.takes_pairs is False and other is not None:
            raise DataError("this run reads each text alone: give one, not two")
        return text if other is None else f"{text}{TAB}{other}"

    def _laid(self, texts: Sequence[str]) -> EncoderInput:
        encoded = [self.looked_at(text) for text in texts]
        if not any(encoded):
            raise DataError("there is nothing to look at in an empty text")
        first, second = encoded if len(encoded) > 1 else (encoded[0], ())
        table, n_cut = self.layout.cut([Example(first, second)])
        ids, segments = self.layout.row(table.source[0], table.target[0])
        return EncoderInput(tuple(map(int, ids)), tuple(segments), n_cut > 0, tuple(texts))

    @property
    def takes_pairs(self) -> bool | None:
        """Whether it reads two texts at once (a question and its text); None: one or two."""
        return False

    def looked_at(self, text: str) -> list[int]:
        """The ids of a text that is looked at."""
        return self.tokenizer.encode(text)

    def outcome(self, output: Tensor, laid: EncoderInput) -> Prediction:
        """What comes out of a text, given what the head makes of it; mostly but a vector."""
        return Prediction("vector", "")

    def evaluate_split(self, split: str = "test") -> Evaluation:
        """Scores on a split of the data the run was trained with."""
        return self.scored(load_records(self.recipe.data, self.records).split(split), split)

    def evaluation(
        self, split: str, n: int, scores: Mapping[str, Any], outputs: Sequence[str] = ()
    ) -> Evaluation:
        """Scores of ``n`` examples, and what came out of each."""
        return Evaluation({"task": self.task, "split": split, "n": n, **scores}, list(outputs))

    @abstractmethod
    def scored(self, examples: Sequence[Any], split: str) -> Evaluation:
        """Scores on any examples."""


def check_encoder(model: Any, folder: RunFolder) -> Encoder:
    """The model of a run, which must be an encoder."""
    if not isinstance(model, Encoder):
        family = getattr(getattr(model, "config", None), "family", "unknown")
        raise ConfigError(
            f"{folder.path} holds a model of the family {family!r}, and this needs an encoder"
        )
    return model


Parts = tuple[RunFolder, Recipe, Tokenizer, Encoder, torch.device]
"""The fields of ``EncoderRun``."""


def open_encoder(path: str | Path, task: str, device: str | None) -> Parts:
    """The folder of a run of this task. Nothing in it is executed."""
    folder, recipe, model, place = open_run(path, task, f"one of {task}", device)
    tokenizer, encoder = load_tokenizer(folder.path, recipe.data), check_encoder(model, folder)
    check_vocabulary(folder, tokenizer, encoder.config.n_vocab, spare=True)
    return folder, recipe, tokenizer, encoder, place
