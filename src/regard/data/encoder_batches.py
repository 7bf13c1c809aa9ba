"""Batches of texts, or of pairs of them, for an encoder.

Shapes: B rows, S positions. What a row is to be read as (a label, a score) lies beside its ids.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from hashlib import blake2b
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.data.batches import cut_in_order
from regard.data.buckets import buckets
from regard.data.examples import Example, Ints, Table
from regard.data.layout import Layout
from regard.data.streams import Stream


@dataclass(frozen=True, slots=True)
class Tensors:
    """A batch that goes elsewhere whole."""

    numbers: tuple[int, ...]
    """Which examples these are, in the order of the rows."""

    @property
    def n_target_tokens(self) -> int:
        """What a loss is averaged over: rows."""
        return len(self.numbers)

    def to(self, device: torch.device | str) -> Self:
        """The same batch elsewhere."""
        return self._each(lambda x: x.to(device, non_blocking=True))

    def pin_memory(self) -> Self:
        """The same where a GPU can fetch it by itself."""
        return self._each(Tensor.pin_memory)

    def _each(self, change: Callable[[Tensor], Tensor]) -> Self:
        named = {field.name: getattr(self, field.name) for field in fields(self)}
        changed: dict[str, Any] = {
            name: change(x) for name, x in named.items() if isinstance(x, Tensor)
        }
        return replace(self, **changed)


@dataclass(frozen=True, slots=True)
class TextBatch(Tensors):
    """Texts with the number of a label each."""

    ids: Tensor
    """(B, S)"""
    segments: Tensor
    """(B, S): 0 in the first text, 1 in the second."""
    labels: Tensor
    """(B,) int64; nothing, where they are not known."""


@dataclass(frozen=True, slots=True)
class PairBatch(Tensors):
    """Two texts each, apart, and how alike they are."""

    ids: Tensor
    """(B, S)"""
    other_ids: Tensor
    """(B, T)"""
    scores: Tensor
    """(B,) float32; nothing, where the two belong together and no score tells how much."""


class TextStream(Stream[TextBatch, Ints]):
    """Labelled texts without end: those of like length come together, batches in random order."""

    packed = False

    def __init__(
        self,
        examples: Sequence[Example],
        labels: Sequence[int],
        layout: Layout,
        *,
        batch_tokens: int,
        seed: int,
    ) -> None:
        super().__init__(examples, batch_tokens=batch_tokens, seed=seed)
        self.labels, self.layout = np.array(labels, np.int64), layout

    def _plan(self, table: Table, rng: np.random.Generator) -> list[Ints]:
        return planned(table, self.layout, self.batch_tokens, rng)

    def _batch(self, table: Table, part: Ints) -> TextBatch:
        return text_batch(table, part, self.layout, self.labels)

    def _made_of(self) -> dict[str, int | str]:
        return {**super()._made_of(), "labels": digest(self.labels)}


class PairStream(Stream[PairBatch, Ints]):
    """Pairs of texts without end, read apart from each other."""

    packed = False

    def __init__(
        self,
        examples: Sequence[Example],
        scores: Sequence[float],
        layout: Layout,
        *,
        batch_tokens: int,
        seed: int,
    ) -> None:
        super().__init__(examples, batch_tokens=batch_tokens, seed=seed)
        self.scores, self.layout = np.array(scores, np.float32), layout

    def _plan(self, table: Table, rng: np.random.Generator) -> list[Ints]:
        return planned(table, self.layout, self.batch_tokens, rng)

    def _batch(self, table: Table, part: Ints) -> PairBatch:
        return pair_batch(table, part, self.layout, self.scores)

    def _made_of(self) -> dict[str, int | str]:
        return {**super()._made_of(), "scores": digest(self.scores)}


def planned(
    table: Table, layout: Layout, batch_tokens: int, rng: np.random.Generator
) -> list[Ints]:
    """The examples of each batch of an epoch."""
    batches = buckets(*layout.sizes(table), batch_tokens, rng)
    return [batches[i] for i in rng.permutation(len(batches))]


def in_order(table: Table, layout: Layout, batch_tokens: int) -> list[Ints]:
    """All examples once, shortest first, cut into batches: for scoring."""
    first, second = layout.sizes(table)
    return cut_in_order(np.lexsort((second, first)), np.maximum(first, second), batch_tokens)


def text_batch(table: Table, rows: Ints, layout: Layout, labels: Ints) -> TextBatch:
    """Some of the texts; ``labels`` are those of all, or none."""
    ids, segments = layout.texts(table, rows)
    chosen = labels[rows] if len(labels) else labels
    return TextBatch(tuple(rows.tolist()), ids, segments, torch.from_numpy(chosen))


def pair_batch(table: Table, rows: Ints, layout: Layout, scores: NDArray[np.float32]) -> PairBatch:
    """Some of the pairs; ``scores`` are those of all, or none."""
    return PairBatch(
        tuple(rows.tolist()),
        layout.side(table.source, rows),
        layout.side(table.target, rows),
        torch.from_numpy(scores[rows] if len(scores) else scores),
    )


def digest(numbers: NDArray[np.generic]) -> str:
    """A fingerprint of what is to be learned."""
    return blake2b(numbers.tobytes(), digest_size=16).hexdigest()
