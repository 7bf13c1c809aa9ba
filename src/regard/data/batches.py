"""Ids → padded batches of about equal cost, in an order that can be taken up again.

Shapes: B sentences, S source positions, T target positions. A source is followed by the end
token; a target has the begin token before it and the end token after it, and the model reads it
without its last position to predict it without its first. So a text of n ids fills n + 1 positions
on either side.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from itertools import pairwise
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.core.errors import CheckpointError, DataError
from regard.data.pairs import Pair
from regard.text.specials import BEGIN_ID, END_ID, PAD_ID
from regard.text.tokenizer import Tokenizer

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Example:
    """Ids of one pair, without special ones."""

    source: Sequence[int]
    target: Sequence[int]


@dataclass(frozen=True, slots=True)
class Batch:
    """Examples side by side, padded to the longest."""

    source: Tensor
    """(B, S) int64: ids, end, padding."""
    target: Tensor
    """(B, T + 1) int64: begin, ids, end, padding."""
    numbers: tuple[int, ...]
    """Which examples these are, in the order of the rows."""
    n_source_tokens: int
    """Source positions that are not padding."""
    n_target_tokens: int
    """Positions of ``target_out`` that are not padding: what a loss is averaged over."""

    @property
    def target_in(self) -> Tensor:
        """(B, T): what the model reads."""
        return self.target[:, :-1]

    @property
    def target_out(self) -> Tensor:
        """(B, T): what it should say at each position."""
        return self.target[:, 1:]

    def to(self, device: torch.device | str) -> Batch:
        """The same batch elsewhere."""
        source = self.source.to(device, non_blocking=True)
        return replace(self, source=source, target=self.target.to(device, non_blocking=True))


def encode_pairs(pairs: Sequence[Pair], source: Tokenizer, target: Tokenizer) -> list[Example]:
    """Sentence pairs to ids, with a tokenizer for each side."""
    sources = source.encode_batch([pair.source for pair in pairs])
    targets = target.encode_batch([pair.target for pair in pairs])
    return [Example(left, right) for left, right in zip(sources, targets, strict=True)]


def within(
    examples: Sequence[Example], max_len: int, rule: Literal["drop", "truncate"] = "drop"
) -> tuple[list[Example], int]:
    """Examples that fill at most ``max_len`` positions a side, and how many were too long.

    The end token of a source and the begin token of a target take one position, so
    ``max_len - 1`` ids fit. When either side is too long, the pair is dropped, or its ids beyond
    the limit are.
    """
    room = max_len - 1
    fits = [max(len(one.source), len(one.target)) <= room for one in examples]
    n_long = fits.count(False)
    if rule == "truncate":
        return [Example(one.source[:room], one.target[:room]) for one in examples], n_long
    if n_long and n_long == len(examples):
        raise DataError(
            f"all {n_long} pairs are longer than max_len={max_len} tokens; raise model.max_len, "
            "or set data.long_lines=truncate"
        )
    return [one for one, fit in zip(examples, fits, strict=True) if fit], n_long


def collate(examples: Sequence[Example], numbers: Sequence[int] | None = None) -> Batch:
    """One batch of all the examples; ``numbers`` are theirs, from 0 if not given."""
    batch = _Table(examples).batch(np.arange(len(examples)))
    return batch if numbers is None else replace(batch, numbers=tuple(numbers))


def fixed_batches(examples: Sequence[Example], batch_tokens: int) -> list[Batch]:
    """All examples once, shortest sources first: for scoring and decoding.

    ``Batch.numbers`` tell where each row belongs.
    """
    table = _Table(examples)
    order = np.lexsort((table.target.lengths, table.source.lengths))
    cuts = _cut(order, table.lengths, batch_tokens, first=batch_tokens)
    return [table.batch(rows) for rows in cuts]


class BatchStream:
    """Batches without end, each of at most ``batch_tokens`` positions on its longer side.

    The plan of an epoch depends on nothing but the examples, the seed and the epoch's number:
    every example comes once, examples of like length together, batches in random order. A longer
    example than ``batch_tokens`` makes a batch of its own.
    """

    def __init__(self, examples: Sequence[Example], *, batch_tokens: int, seed: int) -> None:
        if not examples:
            raise DataError("there are no examples to train on")
        self.batch_tokens = batch_tokens
        self.seed = seed
        self._table = _Table(examples)
        self._begin(0)

    @property
    def n_batches(self) -> int:
        """Batches of the current epoch."""
        return len(self._plan)

    def next(self) -> Batch:
        """The next batch; after the last of an epoch, the first of the next."""
        batch = self._table.batch(self._plan[self._position])
        self._position += 1
        if self._position == len(self._plan):
            self._begin(self.epoch + 1)
        return batch

    def state(self) -> dict[str, int | str]:
        """Where the stream is; JSON can hold it."""
        return {"epoch": self.epoch, "position": self._position, **self._made_of()}

    def restore(self, state: Mapping[str, int | str]) -> None:
        """Go on as the stream did whose state this was."""
        for name, here in self._made_of().items():
            if state[name] != here and name == "data":
                raise CheckpointError(
                    "the training data is not what it was when the checkpoint was made; bring the "
                    "old data back, or start a new run"
                )
            if state[name] != here:
                raise CheckpointError(
                    f"cannot go on in the middle of an epoch: {name} was {state[name]} when the "
                    f"checkpoint was made and is {here} now; set it back, or start a new run"
                )
        self._begin(int(state["epoch"]))
        self._position = int(state["position"])

    def _begin(self, epoch: int) -> None:
        self.epoch = epoch  # of the next batch; as many are complete
        self._plan = self._planned(epoch)
        self._position = 0

    def _made_of(self) -> dict[str, int | str]:
        """All that the plans depend on."""
        digest = self._table.digest
        return {"seed": self.seed, "batch_tokens": self.batch_tokens, "data": digest}

    def _planned(self, epoch: int) -> list[Ints]:
        """Rows of each batch of an epoch."""
        rng = np.random.default_rng((self.seed, epoch))
        order = _by_length(self._table.source.lengths, self._table.target.lengths, rng)
        first = int(rng.integers(1, self.batch_tokens, endpoint=True))
        batches = _cut(order, self._table.lengths, self.batch_tokens, first)
        return [batches[i] for i in rng.permutation(len(batches))]


def _by_length(source: Ints, target: Ints, rng: np.random.Generator) -> Ints:
    """Examples by target length, then by source length, equals in random order.

    Source lengths go up within one target length and down within the next: so a batch that spans
    two of them does not hold the longest sources beside the shortest.
    """
    upward = np.where(target % 2 == 0, source, -source)
    return np.lexsort((rng.random(len(source)), upward, target))


def _cut(order: Ints, lengths: Ints, batch_tokens: int, first: int) -> list[Ints]:
    """Consecutive examples while rows × longest ≤ ``batch_tokens``, but at least one.

    The first batch has room for ``first`` only: when that is random, so are all the other cuts, and
    examples do not meet the same company each epoch.
    """
    cuts = [0]
    longest, room = 0, first
    for i, length in enumerate(lengths[order].tolist()):
        longest = max(longest, length)
        if longest * (i + 1 - cuts[-1]) > room and i > cuts[-1]:
            cuts.append(i)
            longest, room = length, batch_tokens
    return [order[begin:end] for begin, end in pairwise([*cuts, len(order)]) if end > begin]


class _Column:
    """One side of all examples: ids end to end, cut out by arithmetic instead of loops."""

    def __init__(self, texts: Sequence[Sequence[int]]) -> None:
        self.lengths: Ints = np.fromiter(map(len, texts), np.int64, len(texts))
        n_ids = int(self.lengths.sum())
        flat = np.fromiter((number for text in texts for number in text), np.int32, n_ids)
        self.ids = np.append(flat, np.int32(PAD_ID))  # so that an index past the end exists
        self.starts: Ints = np.cumsum(self.lengths) - self.lengths

    def padded(self, rows: Ints, *, begin: bool) -> Tensor:
        """(B, longest + 1 or 2): begin if asked for, ids, end, padding."""
        lengths = self.lengths[rows, None]  # (B, 1)
        at = np.arange(int(lengths.max()) + 1)
        index = np.minimum(self.starts[rows, None] + at, len(self.ids) - 1)
        ids = np.where(at < lengths, self.ids[index], np.where(at == lengths, END_ID, PAD_ID))
        if begin:
            ids = np.pad(ids, ((0, 0), (1, 0)), constant_values=BEGIN_ID)
        return torch.from_numpy(ids.astype(np.int64))


class _Table:
    """All examples, ready to be cut into batches."""

    def __init__(self, examples: Sequence[Example]) -> None:
        self.source = _Column([one.source for one in examples])
        self.target = _Column([one.target for one in examples])
        self.lengths: Ints = np.maximum(self.source.lengths, self.target.lengths) + 1

    def batch(self, rows: Ints) -> Batch:
        return Batch(
            source=self.source.padded(rows, begin=False),
            target=self.target.padded(rows, begin=True),
            numbers=tuple(rows.tolist()),
            n_source_tokens=int(self.source.lengths[rows].sum()) + len(rows),
            n_target_tokens=int(self.target.lengths[rows].sum()) + len(rows),
        )

    @cached_property
    def digest(self) -> str:
        """A fingerprint of all ids."""
        hashed = blake2b(digest_size=16)
        for column in (self.source, self.target):
            hashed.update(column.lengths.tobytes())
            hashed.update(column.ids.tobytes())
        return hashed.hexdigest()
