"""Pairs of texts as batches for a translator: padded, or packed end to end.

A padded batch has ``source`` (B, S): ids, end, padding; and ``target`` (B, T + 1): begin, ids, end,
padding. A tiled one is padded to one of few shapes. A packed batch has one row of N positions a
side, so that nothing is computed for padding, and every batch of a stream has the same shapes,
which is what a compiler and a graph of kernels need: room is left over at the end, less than 2 %
where a batch holds 1,000 texts. Its tensors:

``source``, ``target_in``  (1, N) int64: ids and end of each text; begin and ids of each text
``target_out``  (1, N) int64: ids and end of each text, what a model should predict
``*_positions``  (N,) int64: the position of a token within its text; 0 in the tail
``*_texts``  (N,) int32: to which text a token belongs; in the tail −1 (source) or −2 (target)
``*_bounds``  (n + 1,) int32: text i fills ``bounds[i]:bounds[i + 1]``; the last end is repeated
``spans``  (G, 4) int32: begin and end in the source, begin and end in the target, of a group of
whole texts, neither side longer than ``block``; unused rows are 0

and its sizes: ``block``, 64 or 128, the smaller that holds every text of the corpus, or 0, and no
spans, if none does; ``longest``, positions of the longest text of the corpus.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.data.batch import Batch
from regard.data.batching import Groups, Tile, buckets, cut_in_order, dealt, grouped, tiles
from regard.data.examples import BLOCKS, Column, Example, IdTable, Ints, Texts
from regard.data.settings import LossOn
from regard.data.shard_windows import ShardedPairs
from regard.data.stream import Stream, epoch_rng, examples_of
from regard.text.specials import BEGIN_ID, END_ID, PAD_ID

NO_SOURCE, NO_TARGET = -1, -2
"""Text numbers of the tails. They differ, so that no tail sees the other."""
EVEN = 64
"""Numbers of positions are multiples of this, as matrix kernels like them."""
TILING = 3
"""The rule by which texts are laid into tiles: a training is not resumed by another."""
SPARE = np.array([0.005, 0.005, 0.02, 0.01])
"""Room for epochs whose batches are less equal than those of the first."""


def collate_pairs(examples: Sequence[Example], numbers: Sequence[int] | None = None) -> Batch:
    """One padded batch of all the examples; ``numbers`` are theirs, from 0 if not given."""
    batch = padded_pairs(IdTable.of(examples), np.arange(len(examples)))
    return batch if numbers is None else replace(batch, numbers=tuple(numbers))


def ordered_batches(examples: Sequence[Example], batch_tokens: int) -> list[Batch]:
    """All examples once, shortest sources first; ``numbers`` say where each row belongs."""
    table = IdTable.of(examples)
    order = np.lexsort((table.target.lengths, table.source.lengths))
    return [padded_pairs(table, rows) for rows in cut_in_order(order, table.lengths, batch_tokens)]


def padded_stream(
    examples: Sequence[Example] | Texts | ShardedPairs,
    *,
    batch_tokens: int,
    seed: int,
    loss_on: LossOn = "target",
) -> Stream:
    """Padded batches of at most ``batch_tokens`` positions a side, of examples alike in length.

    With the loss on ``all``, tokens of the source behind its first count as those of the target do.
    """

    def plan(table: IdTable, rng: np.random.Generator) -> list[Ints]:
        source, target = table.source.lengths + 1, table.target.lengths + 1
        return buckets(source, target, batch_tokens, rng)

    texts = IdTable.of(examples) if isinstance(examples, Sequence) else examples
    depends_on = {"batch_tokens": batch_tokens, "packed": False}
    collate = padded_pairs if loss_on == "target" else _with_source
    return Stream(texts, plan, collate, seed=seed, depends_on=depends_on)


def tiled_stream(
    examples: Sequence[Example] | Texts | ShardedPairs,
    *,
    batch_tokens: int,
    seed: int,
    longest: int | None = None,
) -> Stream:
    """Padded batches of few shapes, for launches that are recorded.

    No text is padded beyond ``longest``, of which none may be longer.
    """

    def plan(table: IdTable, rng: np.random.Generator) -> list[Tile]:
        sides = (table.source.lengths + 1, table.target.lengths + 1)
        return tiles(*sides, batch_tokens, rng, longest)

    texts = IdTable.of(examples) if isinstance(examples, Sequence) else examples
    depends_on = {"batch_tokens": batch_tokens, "packed": False, "tiled": TILING}
    return Stream(texts, plan, _tiled, seed=seed, depends_on=depends_on, split=Tile.part)


def _tiled(table: IdTable, tile: Tile) -> Batch:
    """Examples in a batch of a given shape; the source of an empty row is an end alone.

    To experts that is a token, as the begin of its target is: one in 300 on Multi30k.
    """
    batch = padded_pairs(table, tile.rows)
    source = torch.full((tile.n_rows, tile.n_source), PAD_ID)
    target = torch.full((tile.n_rows, tile.n_target + 1), PAD_ID)
    source[:, 0], target[:, 0] = END_ID, BEGIN_ID
    for whole, part in ((source, batch.source), (target, batch.target)):
        whole[: len(part), : part.shape[1]] = part
    return replace(batch, tensors={"source": source, "target": target})


def padded_pairs(table: IdTable, rows: Ints) -> Batch:
    """Some of the examples side by side, padded to the longest."""
    source = _padded(table.source, rows, begin=False)
    target = _padded(table.target, rows, begin=True)
    count = int(table.target.lengths[rows].sum()) + len(rows)
    return Batch({"source": source, "target": target}, table.numbers_of(rows), count)


def _with_source(table: IdTable, rows: Ints) -> Batch:
    """The same, where a model is to predict the sources: all but the first token, and the end."""
    batch, n = padded_pairs(table, rows), int(table.source.lengths[rows].sum())
    return replace(batch, count=batch.count + n, n_source=n)


def _padded(column: Column, rows: Ints, *, begin: bool) -> Tensor:
    """(B, longest + 1 or 2): begin if asked for, ids, end, padding."""
    lengths = column.lengths[rows, None]  # (B, 1)
    at = np.arange(int(lengths.max()) + 1)
    index = np.minimum(column.starts[rows, None] + at, len(column.ids) - 1)
    ids = np.where(at < lengths, column.ids[index], np.where(at == lengths, END_ID, PAD_ID))
    if begin:
        ids = np.pad(ids, ((0, 0), (1, 0)), constant_values=BEGIN_ID)
    return torch.from_numpy(ids.astype(np.int64))


def packed_stream(
    examples: Sequence[Example] | Texts | ShardedPairs, *, batch_tokens: int, seed: int
) -> Stream:
    """Packed batches, all of the same shapes."""
    texts = IdTable.of(examples) if isinstance(examples, Sequence) else examples
    packer = Packer(texts, batch_tokens=batch_tokens, seed=seed)
    depends_on = {"batch_tokens": batch_tokens, "packed": True}
    how: dict[str, Any] = {"depends_on": depends_on, "split": Groups.part}
    return Stream(texts, packer.plan, packer.batch, seed=seed, **how)


class Capacity(NamedTuple):
    """What every packed batch of a stream has room for."""

    n_source: int
    n_target: int
    n_texts: int
    n_groups: int


class Packer:
    """Lays texts end to end.

    The longer side of a batch has about ``batch_tokens`` positions: as many as divide an epoch
    evenly, so that no batch is left over half empty, and at least a block.
    """

    def __init__(self, texts: Texts | ShardedPairs, *, batch_tokens: int, seed: int) -> None:
        self._texts, self._batch_tokens, self._seed = texts, batch_tokens, seed
        self.longest = texts.longest
        self.block = next((block for block in BLOCKS if self.longest <= block), 0)

    @cached_property
    def capacity(self) -> Capacity:
        """Found by planning the first epoch, or its first window, wherever we are."""
        least = self.block or self.longest
        room = -(-max(self._batch_tokens, least) // EVEN) * EVEN
        none = np.iinfo(np.int64).max
        limits = np.array([room, room, none, none])
        _, most = self._dealt(examples_of(self._texts, 0), limits, epoch_rng(self._seed, 0))
        *sides, n_texts, n_groups = np.ceil(most * (1 + SPARE)).astype(int).tolist()
        n_source, n_target = (min(room, -(-max(n, least) // EVEN) * EVEN) for n in sides)
        return Capacity(n_source, n_target, max(n_texts, least), n_groups)

    def plan(self, table: IdTable, rng: np.random.Generator) -> list[Groups]:
        """The groups of texts of each batch."""
        return self._dealt(table, np.array(self.capacity), rng)[0]

    def batch(self, table: IdTable, part: Groups) -> Batch:
        """Some of the examples end to end."""
        room, rows = self.capacity, part.texts
        source = _packed("source", table.source, rows, room.n_source, room.n_texts, NO_SOURCE)
        target = _packed("target", table.target, rows, room.n_target, room.n_texts, NO_TARGET)
        target["target_out"] = target.pop("target")
        target["target_in"] = np.roll(target["target_out"], 1)  # each text one to the right
        target["target_in"][target["target_positions"] == 0] = BEGIN_ID
        target["target_in"][target["target_texts"] < 0] = PAD_ID
        bounds = source["source_bounds"], target["target_bounds"]
        spans = np.zeros((room.n_groups if self.block else 0, 4), np.int32)
        if self.block:
            begins, ends = part.starts[:-1], part.starts[1:]
            spans[: len(part)] = np.stack([one[at] for one in bounds for at in (begins, ends)], 1)
        arrays = {**source, **target, "spans": spans}
        tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
        for name in ("source", "target_in", "target_out"):
            tensors[name] = tensors[name].unsqueeze(0)
        return Batch(
            tensors,
            numbers=table.numbers_of(rows),
            count=int(bounds[1][-1]),
            sizes={"block": self.block, "longest": self.longest},
        )

    def _dealt(
        self, table: IdTable, limits: Ints, rng: np.random.Generator
    ) -> tuple[list[Groups], Ints]:
        """The texts of each batch, and the most that a batch holds."""
        n = len(table)
        if self.block:
            groups = grouped(table.lengths, self.block, rng)
        else:  # each text is a group of its own
            groups = Groups(rng.permutation(n), np.arange(n + 1))
        sizes = groups.sizes(table.source.lengths + 1, table.target.lengths + 1)
        least = -(-int(sizes[:2].sum(axis=1).max()) // self._batch_tokens)
        hands, most = dealt(sizes, limits, least, rng)
        return [groups.only(hand) for hand in hands], most


def _packed(
    side: str, column: Column, rows: Ints, n: int, n_texts: int, tail: int
) -> dict[str, NDArray[Any]]:
    """Ids and end of each text, end to end; see the tensors of these names above."""
    lengths = column.lengths[rows] + 1
    ends = np.cumsum(lengths)
    total = int(ends[-1])
    positions, texts = np.zeros(n, np.int64), np.full(n, tail, np.int32)
    ids = np.full(n, PAD_ID, np.int64)
    texts[:total] = np.repeat(np.arange(len(rows), dtype=np.int32), lengths)
    positions[:total] = np.arange(total) - np.repeat(ends - lengths, lengths)
    index = positions[:total] + np.repeat(column.starts[rows], lengths)
    ids[:total] = column.ids[np.minimum(index, len(column.ids) - 1)]
    ids[ends - 1] = END_ID
    bounds = np.full(n_texts + 1, total, np.int32)
    bounds[: len(rows) + 1] = np.concatenate(([0], ends))
    return {
        side: ids,
        f"{side}_positions": positions,
        f"{side}_texts": texts,
        f"{side}_bounds": bounds,
    }


def pair_lengths(batch: Batch) -> tuple[Ints, Ints]:
    """Positions that each source and target has of its own, without padding.

    Of a batch that has not gone to a device; rows of a tile that hold no example count nothing.
    """
    if batch.packed:
        return text_lengths(batch.source_bounds), text_lengths(batch.target_bounds)
    n = len(batch.numbers)
    source, target = ((ids[:n] != PAD_ID).sum(1).numpy() for ids in (batch.source, batch.target))
    return source, target - 1  # a model reads all but the last


def text_lengths(bounds: Tensor) -> Ints:
    """Positions of each text of a packed batch that has not gone to a device."""
    lengths: Ints = np.diff(bounds.numpy()).astype(np.int64)
    return lengths[lengths > 0]  # every text has its end token
