"""Ids → padded batches of about equal cost.

Shapes: B sentences, S source positions, T target positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from regard.data.buckets import buckets
from regard.data.examples import Column, Example, Ints, Table
from regard.data.streams import Stream
from regard.text.specials import BEGIN_ID, END_ID, PAD_ID


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

    def pin_memory(self) -> Batch:
        """The same where a GPU can fetch it by itself."""
        return replace(self, source=self.source.pin_memory(), target=self.target.pin_memory())


def collate(examples: Sequence[Example], numbers: Sequence[int] | None = None) -> Batch:
    """One batch of all the examples; ``numbers`` are theirs, from 0 if not given."""
    batch = _batch(Table.of(examples), np.arange(len(examples)))
    return batch if numbers is None else replace(batch, numbers=tuple(numbers))


def fixed_batches(examples: Sequence[Example], batch_tokens: int) -> list[Batch]:
    """All examples once, shortest sources first: for scoring and decoding.

    ``Batch.numbers`` tell where each row belongs.
    """
    table = Table.of(examples)
    order = np.lexsort((table.target.lengths, table.source.lengths))
    return [_batch(table, rows) for rows in cut_in_order(order, table.lengths, batch_tokens)]


class BatchStream(Stream[Batch, Ints]):
    """Batches without end, each of at most ``batch_tokens`` positions on its longer side.

    Examples of like length come together, batches in random order. A longer example than
    ``batch_tokens`` makes a batch of its own.
    """

    packed = False

    def _plan(self, table: Table, rng: np.random.Generator) -> list[Ints]:
        source, target = table.source.lengths + 1, table.target.lengths + 1
        batches = buckets(source, target, self.batch_tokens, rng)
        return [batches[i] for i in rng.permutation(len(batches))]

    def _batch(self, table: Table, part: Ints) -> Batch:
        return _batch(table, part)


def cut_in_order(order: Ints, lengths: Ints, batch_tokens: int) -> list[Ints]:
    """Consecutive examples while rows × longest ≤ ``batch_tokens``, but at least one."""
    cuts, longest = [0], 0
    for i, length in enumerate(lengths[order].tolist()):
        longest = max(longest, length)
        if longest * (i + 1 - cuts[-1]) > batch_tokens and i > cuts[-1]:
            cuts.append(i)
            longest = length
    return [order[begin:end] for begin, end in pairwise([*cuts, len(order)]) if end > begin]


def _batch(table: Table, rows: Ints) -> Batch:
    return Batch(
        source=_padded(table.source, rows, begin=False),
        target=_padded(table.target, rows, begin=True),
        numbers=tuple(rows.tolist()),
        n_source_tokens=int(table.source.lengths[rows].sum()) + len(rows),
        n_target_tokens=int(table.target.lengths[rows].sum()) + len(rows),
    )


def _padded(column: Column, rows: Ints, *, begin: bool) -> Tensor:
    """(B, longest + 1 or 2): begin if asked for, ids, end, padding."""
    lengths = column.lengths[rows, None]  # (B, 1)
    at = np.arange(int(lengths.max()) + 1)
    index = np.minimum(column.starts[rows, None] + at, len(column.ids) - 1)
    ids = np.where(at < lengths, column.ids[index], np.where(at == lengths, END_ID, PAD_ID))
    if begin:
        ids = np.pad(ids, ((0, 0), (1, 0)), constant_values=BEGIN_ID)
    return torch.from_numpy(ids.astype(np.int64))
