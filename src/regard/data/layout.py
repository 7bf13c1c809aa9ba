"""Texts, or pairs of them, as an encoder reads them: begin, text, end, perhaps other text, end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard.data.examples import Column, Example, Ints, Table
from regard.text.marks import Marks


@dataclass(frozen=True, slots=True)
class Layout:
    """How texts become rows: which ids stand around them, and how long a row may be."""

    marks: Marks
    max_len: int
    joined: bool = True
    """Whether the two texts of a pair stand in one row; else each is a row of its own."""

    @property
    def n_begin(self) -> int:
        """Positions before a text."""
        return int(self.marks.begin is not None)

    def cut(self, examples: Sequence[Example]) -> tuple[Table, int]:
        """Texts that fit, and how many had to be cut for it; the longer of two is cut first."""
        table = Table.of(examples)
        a, b = table.source.lengths, table.target.lengths
        if not self.joined:
            room = self.max_len - self.n_begin - 1
            fitting = Table(table.source.cut(room), table.target.cut(room))
            return fitting, int(((a > room) | (b > room)).sum())
        room_of = self.max_len - self.n_begin - 1 - (b > 0)
        first = np.minimum(a, np.maximum(room_of - b, -(-room_of // 2)))
        second = np.minimum(b, room_of - first)
        source, target = table.source, table.target
        fitting = Table(
            Column(source.ids, source.starts, first), Column(target.ids, target.starts, second)
        )
        return fitting, int((a + b > room_of).sum())

    def lengths(self, column: Column) -> Ints:
        """Positions that each text fills alone."""
        return column.lengths + self.n_begin + 1

    def sizes(self, table: Table) -> tuple[Ints, Ints]:
        """Positions of each example: of its rows, or of its one row, twice."""
        first, second = table.source, table.target
        if not self.joined:
            return self.lengths(first), self.lengths(second)
        joined = self.lengths(first) + np.where(second.lengths > 0, second.lengths + 1, 0)
        return joined, joined

    def row(self, first: Sequence[int], second: Sequence[int] = ()) -> tuple[list[int], list[int]]:
        """Ids and segments of one text or pair."""
        begin = [] if self.marks.begin is None else [self.marks.begin]
        ids = [*begin, *first, self.marks.end]
        segments = [0] * len(ids)
        if len(second):
            ids += [*second, self.marks.end]
            segments += [1] * (len(second) + 1)
        return ids, segments

    def padded(self, rows: Sequence[tuple[list[int], list[int]]]) -> tuple[Tensor, Tensor]:
        """Ids (B, S) and segments (B, S), padding behind the shorter ones."""
        longest = max(len(ids) for ids, _ in rows)
        both = np.full((2, len(rows), longest), self.marks.pad, dtype=np.int64)
        both[1] = 0
        for i, (ids, segments) in enumerate(rows):
            both[0, i, : len(ids)] = ids
            both[1, i, : len(ids)] = segments
        return torch.from_numpy(both[0]), torch.from_numpy(both[1])

    def texts(self, table: Table, rows: Ints) -> tuple[Tensor, Tensor]:
        """Some examples, each in one row: ids and segments."""
        return self.padded([self.row(table.source[i], table.target[i]) for i in rows.tolist()])

    def side(self, column: Column, rows: Ints) -> Tensor:
        """One side of some examples (B, S), each text alone."""
        return self.padded([self.row(column[i]) for i in rows.tolist()])[0]
