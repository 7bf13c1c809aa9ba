"""Texts with words left out (Devlin et al. 2019), left out anew each epoch.

Of all tokens 15 % are to be guessed. In the place of such a token stands the mask (80 %), any other
token (10 %) or the token itself (10 %), so that a model must doubt what it sees.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard.core.errors import ConfigError
from regard.data.encoder_batches import Tensors, in_order, planned
from regard.data.examples import Example, Ints, Table
from regard.data.layout import Layout
from regard.data.streams import Stream

SHARE = 0.15
"""Of the tokens, to be guessed."""
MASKED, SWAPPED = 0.8, 0.1
"""Of these, those that stand behind a mask, and those that another token stands for."""
FIXED_SEED = 0
"""For texts that are scored: the same words are left out each time."""


@dataclass(frozen=True, slots=True)
class MaskedBatch(Tensors):
    """Texts in which some tokens are to be guessed."""

    ids: Tensor
    """(B, S): what is read."""
    segments: Tensor
    """(B, S)"""
    places: Tensor
    """(N,): where something is to be guessed, in the B · S positions."""
    targets: Tensor
    """(N,): what stood there."""

    @property
    def n_target_tokens(self) -> int:
        """What the loss is averaged over: tokens to be guessed."""
        return len(self.places)


@dataclass(frozen=True, slots=True)
class Masking:
    """Chooses tokens and what stands in their place."""

    layout: Layout
    mask: int
    spoken: Ints
    """Ids that stand for text."""

    @classmethod
    def of(cls, layout: Layout, n_vocab: int) -> Masking:
        """For a vocabulary of so many ids."""
        mask = layout.marks.mask
        if mask is None:
            raise ConfigError("the tokenizer has no token for masked words; train a new one")
        special = [*layout.marks.named().values()]
        return cls(layout, mask, np.setdiff1d(np.arange(n_vocab), special))

    def batch(self, table: Table, rows: Ints, rng: np.random.Generator) -> MaskedBatch:
        """Some of the texts; at least one token of them is to be guessed."""
        ids, segments = self.layout.texts(table, rows)
        read = ids.numpy()
        text = np.flatnonzero(~np.isin(read, [*self._around()]))
        places = text[rng.random(len(text)) < SHARE]
        if not len(places) and len(text):
            places = text[rng.integers(len(text), size=1)]
        targets = read.ravel()[places]
        read.ravel()[places] = self._shown(targets, rng)
        numbers = tuple(rows.tolist())
        return MaskedBatch(
            numbers, ids, segments, torch.from_numpy(places), torch.from_numpy(targets)
        )

    def _around(self) -> set[int]:
        marks = self.layout.marks
        return {mark for mark in (marks.pad, marks.begin, marks.end) if mark is not None}

    def _shown(self, targets: Ints, rng: np.random.Generator) -> Ints:
        fate = rng.random(len(targets))
        others = self.spoken[rng.integers(len(self.spoken), size=len(targets))]
        kept = np.where(fate < MASKED + SWAPPED, others, targets)
        return np.where(fate < MASKED, self.mask, kept)


Part = tuple[Ints, int]
"""The texts of a batch, and what decides which of their tokens are left out."""


class MaskedStream(Stream[MaskedBatch, Part]):
    """Masked texts without end. Seed and epoch decide all, so that going on is exact."""

    packed = False

    def __init__(
        self, examples: Sequence[Example], masking: Masking, *, batch_tokens: int, seed: int
    ) -> None:
        super().__init__(examples, batch_tokens=batch_tokens, seed=seed)
        self.masking = masking

    def _plan(self, table: Table, rng: np.random.Generator) -> list[Part]:
        all_rows = planned(table, self.masking.layout, self.batch_tokens, rng)
        batches = [rows for rows in all_rows if table.source.lengths[rows].any()]
        seeds = rng.integers(2**63 - 1, size=len(batches)).tolist()
        return list(zip(batches, seeds, strict=True))

    def _batch(self, table: Table, part: Part) -> MaskedBatch:
        rows, seed = part
        return self.masking.batch(table, rows, np.random.default_rng(seed))


def fixed_masked(
    examples: Sequence[Example], masking: Masking, batch_tokens: int
) -> list[MaskedBatch]:
    """All texts once, always with the same tokens left out: for scoring."""
    table = Table.of(examples)
    parts = in_order(table, masking.layout, batch_tokens)
    rng = np.random.default_rng(FIXED_SEED)
    return [masking.batch(table, rows, rng) for rows in parts]
