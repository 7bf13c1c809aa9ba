"""Packed batches: texts lie end to end, so that nothing is computed for padding.

Every batch of a stream has the same shapes, which is what a compiler and a graph of kernels need:
room is left over at the end, less than 2 % where a batch holds 1,000 texts.

N positions a side, n texts, G groups of texts, each small enough for a block of attention.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from regard.data.examples import Column, Example, Ints, Table
from regard.data.groups import Groups, dealt, grouped, single
from regard.data.streams import Stream, Texts
from regard.text.specials import BEGIN_ID, END_ID, PAD_ID

BLOCKS = (64, 128)
"""Sizes of a block of attention."""
NO_SOURCE, NO_TARGET = -1, -2
"""Text numbers of the tails. They differ, so that no tail sees the other."""
EVEN = 64
"""Numbers of positions are multiples of this, as matrix kernels like them."""
SPARE = np.array([0.005, 0.005, 0.02, 0.01])
"""Room for epochs whose batches are less equal than those of the first."""


@dataclass(frozen=True, slots=True)
class Packed:
    """One side of a batch."""

    ids: Tensor
    """(N,) int64, with padding behind the last text."""
    places: Tensor
    """(N,) int64: the position of a token within its text; 0 in the tail."""
    texts: Tensor
    """(N,) int32: to which text a token belongs; in the tail −1 (source) or −2 (target)."""
    bounds: Tensor
    """(n + 1,) int32: text i fills ``bounds[i]:bounds[i + 1]``; the last end is repeated."""

    def lengths(self) -> Ints:
        """Positions of each text; of a batch that has not gone to a device."""
        lengths: Ints = np.diff(self.bounds.numpy()).astype(np.int64)
        return lengths[lengths > 0]  # every text has its end token

    def to(self, device: torch.device | str) -> Packed:
        """The same elsewhere."""
        return Packed(*(part.to(device, non_blocking=True) for part in self._parts()))

    def pin_memory(self) -> Packed:
        """The same where a GPU can fetch it by itself."""
        return Packed(*(part.pin_memory() for part in self._parts()))

    def _parts(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return self.ids, self.places, self.texts, self.bounds


@dataclass(frozen=True, slots=True)
class PackedBatch:
    """Examples end to end."""

    source: Packed
    """Ids and end of each text."""
    target_in: Packed
    """Begin and ids of each text: what the model reads."""
    target_out: Tensor
    """(N,) int64: ids and end of each text, what the model should say; padding in the tail."""
    spans: Tensor
    """(G, 4) int32: begin and end in the source, begin and end in the target, of a group of whole
    texts, neither side longer than ``block``; unused rows are 0."""
    block: int
    """64 or 128, the smaller that holds every text of the corpus; 0, and no spans, if none does."""
    longest: int
    """Positions of the longest text of the corpus."""
    numbers: tuple[int, ...]
    """Which examples these are, in their order."""
    n_source_tokens: int
    """Source positions before the tail."""
    n_target_tokens: int
    """Target positions before the tail: what a loss is averaged over."""

    def to(self, device: torch.device | str) -> PackedBatch:
        """The same batch elsewhere."""
        return replace(
            self,
            source=self.source.to(device),
            target_in=self.target_in.to(device),
            target_out=self.target_out.to(device, non_blocking=True),
            spans=self.spans.to(device, non_blocking=True),
        )

    def pin_memory(self) -> PackedBatch:
        """The same where a GPU can fetch it by itself."""
        return replace(
            self,
            source=self.source.pin_memory(),
            target_in=self.target_in.pin_memory(),
            target_out=self.target_out.pin_memory(),
            spans=self.spans.pin_memory(),
        )


@dataclass(frozen=True, slots=True)
class Capacity:
    """What every batch of a stream has room for."""

    n_source: int
    n_target: int
    n_texts: int
    n_groups: int

    @property
    def limits(self) -> Ints:
        """The same as an array (4,)."""
        return np.array([self.n_source, self.n_target, self.n_texts, self.n_groups])


class PackedStream(Stream[PackedBatch, Groups]):
    """Packed batches without end, all of the same shapes.

    The longer side of a batch has about ``batch_tokens`` positions: as many as divide an epoch
    evenly, so that no batch is left over half empty, and at least a block.
    """

    packed = True

    def __init__(
        self, examples: Sequence[Example] | Texts, *, batch_tokens: int, seed: int
    ) -> None:
        super().__init__(examples, batch_tokens=batch_tokens, seed=seed)
        self.longest = self._texts.longest
        self.block = next((block for block in BLOCKS if self.longest <= block), 0)

    @cached_property
    def capacity(self) -> Capacity:
        """Found by planning the first epoch, whatever the epoch is that we are in."""
        least = self.block or self.longest
        room = -(-max(self.batch_tokens, least) // EVEN) * EVEN
        none = np.iinfo(np.int64).max
        table = self._texts.of_epoch(0)
        _, most = self._dealt(table, np.array([room, room, none, none]), self._rng(0))
        n_source, n_target, n_texts, n_groups = np.ceil(most * (1 + SPARE)).astype(int).tolist()
        return Capacity(
            n_source=min(room, -(-max(n_source, least) // EVEN) * EVEN),
            n_target=min(room, -(-max(n_target, least) // EVEN) * EVEN),
            n_texts=max(n_texts, least),
            n_groups=n_groups,
        )

    def _plan(self, table: Table, rng: np.random.Generator) -> list[Groups]:
        return self._dealt(table, self.capacity.limits, rng)[0]

    def _dealt(
        self, table: Table, limits: Ints, rng: np.random.Generator
    ) -> tuple[list[Groups], Ints]:
        """The texts of each batch, and the most that a batch holds."""
        groups = grouped(table.lengths, self.block, rng) if self.block else single(len(table), rng)
        sizes = groups.sizes(table.source.lengths + 1, table.target.lengths + 1)
        least = -(-int(sizes[:2].sum(axis=1).max()) // self.batch_tokens)
        hands, most = dealt(sizes, limits, least, rng)
        return [groups.only(hand) for hand in hands], most

    def _batch(self, table: Table, part: Groups) -> PackedBatch:
        room = self.capacity
        rows = part.texts
        source = _packed(table.source, rows, room.n_source, room.n_texts, NO_SOURCE)
        said = _packed(table.target, rows, room.n_target, room.n_texts, NO_TARGET)
        spans = np.zeros((room.n_groups if self.block else 0, 4), np.int32)
        if self.block:
            for column, bounds in ((0, source.bounds.numpy()), (2, said.bounds.numpy())):
                spans[: len(part), column] = bounds[part.starts[:-1]]
                spans[: len(part), column + 1] = bounds[part.starts[1:]]
        return PackedBatch(
            source=source,
            target_in=replace(said, ids=_read(said)),
            target_out=said.ids,
            spans=torch.from_numpy(spans),
            block=self.block,
            longest=self.longest,
            numbers=tuple(rows.tolist()),
            n_source_tokens=int(source.bounds[-1]),
            n_target_tokens=int(said.bounds[-1]),
        )


def _packed(column: Column, rows: Ints, n: int, n_texts: int, tail: int) -> Packed:
    """Ids and end of each text, end to end."""
    lengths = column.lengths[rows] + 1
    ends = np.cumsum(lengths)
    total = int(ends[-1])
    places, texts = np.zeros(n, np.int64), np.full(n, tail, np.int32)
    ids = np.full(n, PAD_ID, np.int64)
    texts[:total] = np.repeat(np.arange(len(rows), dtype=np.int32), lengths)
    places[:total] = np.arange(total) - np.repeat(ends - lengths, lengths)
    index = places[:total] + np.repeat(column.starts[rows], lengths)
    ids[:total] = column.ids[np.minimum(index, len(column.ids) - 1)]
    ids[ends - 1] = END_ID
    bounds = np.full(n_texts + 1, total, np.int32)
    bounds[: len(rows) + 1] = np.concatenate(([0], ends))
    return Packed(*map(torch.from_numpy, (ids, places, texts, bounds)))


def _read(said: Packed) -> Tensor:
    """What the model reads where ``said`` is what it should say: each text one to the right."""
    ids = said.ids.roll(1)
    ids[said.places == 0] = BEGIN_ID
    ids[said.texts < 0] = PAD_ID
    return ids
