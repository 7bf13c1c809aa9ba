"""Which parts of which shards are in memory together, epoch after epoch.

A corpus is gone through in passes; each pass has its shards in another order. An epoch takes the
next share of each corpus, as many units (pairs, or ids of one long text) as its weight says, and
divides what it takes into windows of about equal size. With one corpus, an epoch is a pass: every
unit comes once. Seed, epoch and window decide everything, and no order is longer than the list of
shards.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from regard.core.errors import DataError
from regard.data.examples import Column, Example, Ids, IdTable, Ints, table_in
from regard.data.shards import Shard, ShardFolder, digester
from regard.text.specials import PAD_ID

_PASS = 0x5A
"""Tells the generators that order shards from those that plan batches."""


class Slice(NamedTuple):
    """Units begin … end of a shard, by its number."""

    shard: int
    begin: int
    end: int

    @property
    def units(self) -> int:
        """How many there are."""
        return self.end - self.begin


class ShardOrder:
    """The parts of shards in each window of each epoch."""

    def __init__(
        self, shards: Sequence[Shard], weights: Sequence[float], *, seed: int, window_tokens: int
    ) -> None:
        self.seed, self.weights, self.window_tokens = seed, tuple(weights), window_tokens
        units = np.array([one.units for one in shards], np.int64)
        self.corpora = [
            np.flatnonzero([one.corpus == number for one in shards])
            for number in range(len(weights))
        ]
        self.units = units
        self.n_units = int(units.sum())
        """Of all corpora together."""
        totals = [int(units[some].sum()) for some in self.corpora]
        if not all(totals):
            raise DataError(f"corpus {totals.index(0) + 1} of data.mix has nothing to learn from")
        share = self.n_units / sum(weights)
        self.per_epoch = [max(1, round(weight * share)) for weight in weights]
        """Units of each corpus in an epoch."""
        ids = [sum(shards[i].ids for i in some.tolist()) for some in self.corpora]
        rates = zip(self.per_epoch, ids, totals, strict=True)
        n_ids = sum(n * all_ids / total for n, all_ids, total in rates)
        self.n_windows = max(1, -(-int(n_ids) // window_tokens))
        self._pass = lru_cache(maxsize=2 * len(weights))(self._new_pass)

    def __len__(self) -> int:
        """Units of an epoch."""
        return sum(self.per_epoch)

    def slices(self, epoch: int, window: int) -> list[Slice]:
        """The parts of a window, corpus after corpus."""
        found: list[Slice] = []
        for corpus, n in enumerate(self.per_epoch):
            first, last = (epoch * n + n * (window + i) // self.n_windows for i in range(2))
            found += self._between(corpus, first, last)
        return found

    def _between(self, corpus: int, first: int, last: int) -> Iterator[Slice]:
        """What stands from ``first`` to ``last`` where all passes of a corpus follow each other."""
        while first < last:
            total = int(self.units[self.corpora[corpus]].sum())
            number, offset = divmod(first, total)
            order, ends = self._pass(corpus, number)
            at = int(np.searchsorted(ends, offset, side="right"))
            shard = int(order[at])
            begin = offset - int(ends[at] - self.units[shard])
            n = min(last - first, int(self.units[shard]) - begin)
            yield Slice(shard, begin, begin + n)
            first += n

    def _new_pass(self, corpus: int, number: int) -> tuple[Ints, Ints]:
        """The shards of a pass in their order, and up to where each reaches, in units."""
        rng = np.random.default_rng((_PASS, self.seed, corpus, number))
        order = rng.permutation(self.corpora[corpus])
        return order, np.cumsum(self.units[order])

    def digest(self, of_shards: str) -> str:
        """A fingerprint of shards in this order."""
        told = f"{of_shards} {self.weights} {self.window_tokens}"
        return digester(told.encode()).hexdigest()


class ShardedPairs:
    """Pairs of texts as ids in the shards of a folder, a window at a time."""

    def __init__(
        self, folder: ShardFolder, weights: Sequence[float], *, seed: int, window_tokens: int
    ) -> None:
        self.folder, shards = folder, folder.manifest.shards
        self.order = ShardOrder(shards, weights, seed=seed, window_tokens=window_tokens)
        self.digest = self.order.digest(folder.manifest.digest)
        self.longest = folder.manifest.longest
        self._ends = np.cumsum(self.order.units)

    def __len__(self) -> int:
        return len(self.order)

    @property
    def n_windows(self) -> int:
        """Windows of an epoch."""
        return self.order.n_windows

    def of_window(self, epoch: int, window: int) -> IdTable:
        """The pairs of a window; their numbers are those among all pairs of the folder."""
        slices = self.order.slices(epoch, window)
        numbers = [
            np.arange(begin, end) + (self._ends[shard] - self.order.units[shard])
            for shard, begin, end in slices
        ]
        sides = [self._column(slices, side) for side in range(2)]
        known = np.concatenate(numbers or [np.zeros(0, np.int64)])
        return IdTable(sides[0], sides[1], numbers=known)

    def __getitem__(self, number: int) -> Example:
        shard = int(np.searchsorted(self._ends, number, side="right"))
        return self._table(shard)[number - int(self._ends[shard] - self.order.units[shard])]

    def _column(self, slices: Sequence[Slice], side: int) -> Column:
        """One side of some pairs. One file at a time is mapped, so that memory holds it once."""
        lengths, spans = [], []
        for one in slices:
            column = _side(self._table(one.shard), side)
            lengths.append(column.lengths[one.begin : one.end])
            first = int(column.starts[one.begin])
            spans.append((first, first + int(lengths[-1].sum())))
        ids: Ids = np.full(sum(end - begin for begin, end in spans) + 1, PAD_ID, np.int32)
        at = 0
        for one, (begin, end) in zip(slices, spans, strict=True):
            ids[at : at + end - begin] = _side(self._table(one.shard), side).ids[begin:end]
            at += end - begin
        return Column.of(ids, np.concatenate(lengths or [np.zeros(0, np.int64)]))

    def _table(self, shard: int) -> IdTable:
        found = table_in(self.folder.ids(shard), int(self.order.units[shard]))
        if found is None:
            raise self.folder.not_as_told(shard)
        return found


def _side(table: IdTable, side: int) -> Column:
    return (table.source, table.target)[side]


class ShardedIds:
    """One long text as ids in the shards of a folder: where its parts lie."""

    def __init__(
        self, folder: ShardFolder, weights: Sequence[float], *, seed: int, window_tokens: int
    ) -> None:
        self.folder, shards = folder, folder.manifest.shards
        self.order = ShardOrder(shards, weights, seed=seed, window_tokens=window_tokens)

    @cached_property
    def ends(self) -> Ints:
        """Up to where each shard reaches, in ids."""
        return np.cumsum(self.order.units)

    def window(self, epoch: int, window: int) -> tuple[Ids, Ints, Ints]:
        """The ids of a window; where its parts begin in it, and where among all ids."""
        slices = self.order.slices(epoch, window)
        sizes = np.array([one.units for one in slices], np.int64)
        ends = np.cumsum(sizes)
        begins = ends - sizes
        ids: Ids = np.empty(int(sizes.sum()), np.int32)
        for one, begin, end in zip(slices, begins.tolist(), ends.tolist(), strict=True):
            ids[begin:end] = self.folder.ids(one.shard)[one.begin : one.end]
        places = [int(self.ends[s] - self.order.units[s]) + first for s, first, _ in slices]
        return ids, begins, np.array(places, np.int64)

    def read(self, number: int, n: int) -> list[int]:
        """At most ``n`` ids from a place among all ids, no further than its shard reaches."""
        shard = int(np.searchsorted(self.ends, number, side="right"))
        first = number - int(self.ends[shard] - self.order.units[shard])
        return self.folder.ids(shard)[first : first + n].tolist()
