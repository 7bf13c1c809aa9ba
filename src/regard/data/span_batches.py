"""Batches of questions and texts whose answers are spans. Shapes: B rows, S positions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard.data.encoder_batches import Tensors, digest, planned
from regard.data.examples import Ints, Table
from regard.data.layout import Layout
from regard.data.question_windows import NOT_HERE
from regard.data.streams import Stream


@dataclass(frozen=True, slots=True)
class SpanBatch(Tensors):
    """Questions with a window of their text each, and where the answer stands."""

    ids: Tensor
    """(B, S)"""
    segments: Tensor
    """(B, S): 0 in the question, 1 in the text."""
    allowed: Tensor
    """(B, S) bool: where an answer may start or end, the place that says *not here* included."""
    spans: Tensor
    """(B, 2) int64: first and last position of the answer."""


class SpanStream(Stream[SpanBatch, Ints]):
    """Questions without end: rows of like length come together, batches in random order."""

    packed = False

    def __init__(
        self, examples: Table, spans: Ints, layout: Layout, *, batch_tokens: int, seed: int
    ) -> None:
        super().__init__(examples, batch_tokens=batch_tokens, seed=seed)
        self.spans, self.layout = spans, layout

    def _plan(self, table: Table, rng: np.random.Generator) -> list[Ints]:
        return planned(table, self.layout, self.batch_tokens, rng)

    def _batch(self, table: Table, part: Ints) -> SpanBatch:
        return span_batch(table, part, self.layout, self.spans)

    def _made_of(self) -> dict[str, int | str]:
        return {**super()._made_of(), "spans": digest(self.spans)}


def span_batch(table: Table, rows: Ints, layout: Layout, spans: Ints) -> SpanBatch:
    """Some of the rows; ``spans`` are those of all."""
    ids, segments = layout.texts(table, rows)
    begin = torch.from_numpy(table.source.lengths[rows] + layout.n_begin + 1)
    end = begin + torch.from_numpy(table.target.lengths[rows])
    at = torch.arange(ids.shape[1])
    allowed = (at >= begin.unsqueeze(1)) & (at < end.unsqueeze(1))
    allowed[:, NOT_HERE] = True
    return SpanBatch(tuple(rows.tolist()), ids, segments, allowed, torch.from_numpy(spans[rows]))
