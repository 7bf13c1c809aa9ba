"""Texts with words left out (Devlin et al. 2019), left out anew each epoch.

Of all tokens 15 % are to be guessed. In the place of such a token stands the mask (80 %), any other
token (10 %) or the token itself (10 %), so that a model must doubt what it sees.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from regard.core.errors import ConfigError
from regard.data.batch import Batch
from regard.data.examples import Example, IdTable, Ints
from regard.data.row_batches import Layout, ordered_rows, planned_rows
from regard.data.stream import Stream

SHARE = 0.15
"""Of the tokens, to be guessed."""
MASKED, SWAPPED = 0.8, 0.1
"""Of these, those that stand behind a mask, and those that another token stands for."""
FIXED_SEED = 0
"""For texts that are scored: the same words are left out each time."""


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
        mask = layout.specials.mask
        if mask is None:
            raise ConfigError("the tokenizer has no token for masked words; train a new one")
        special = [*layout.specials.named().values()]
        return cls(layout, mask, np.setdiff1d(np.arange(n_vocab), special))

    def batch(self, table: IdTable, rows: Ints, rng: np.random.Generator) -> Batch:
        """Some of the texts; at least one token of them is to be guessed.

        ``ids`` and ``segments`` (B, S) are read; ``positions`` (N,) say where in the B · S of them
        something is to be guessed, and ``targets`` (N,) what stood there.
        """
        ids, segments = self.layout.texts(table, rows)
        read = ids.numpy()
        text = np.flatnonzero(~np.isin(read, [*self._around()]))
        positions = text[rng.random(len(text)) < SHARE]
        if not len(positions) and len(text):
            positions = text[rng.integers(len(text), size=1)]
        targets = read.ravel()[positions]
        read.ravel()[positions] = self._shown(targets, rng)
        tensors = {
            "ids": ids,
            "segments": segments,
            "positions": torch.from_numpy(positions),
            "targets": torch.from_numpy(targets),
        }
        return Batch(tensors, numbers=tuple(rows.tolist()), count=len(positions))

    def _around(self) -> set[int]:
        specials = self.layout.specials
        around = specials.pad, specials.begin, specials.end
        return {one for one in around if one is not None}

    def _shown(self, targets: Ints, rng: np.random.Generator) -> Ints:
        fate = rng.random(len(targets))
        others = self.spoken[rng.integers(len(self.spoken), size=len(targets))]
        kept = np.where(fate < MASKED + SWAPPED, others, targets)
        return np.where(fate < MASKED, self.mask, kept)


Part = tuple[Ints, int]
"""The texts of a batch, and what decides which of their tokens are left out."""


def masked_stream(
    examples: Sequence[Example], masking: Masking, *, batch_tokens: int, seed: int
) -> Stream:
    """Masked texts without end. Seed and epoch decide all, so that going on is exact."""

    def plan(table: IdTable, rng: np.random.Generator) -> list[Part]:
        planned = planned_rows(table, rng, layout=masking.layout, batch_tokens=batch_tokens)
        batches = [rows for rows in planned if table.source.lengths[rows].any()]
        seeds = rng.integers(2**63 - 1, size=len(batches)).tolist()
        return list(zip(batches, seeds, strict=True))

    def collate(table: IdTable, part: Part) -> Batch:
        rows, chance = part
        return masking.batch(table, rows, np.random.default_rng(chance))

    depends_on = {"batch_tokens": batch_tokens, "packed": False}
    return Stream(IdTable.of(examples), plan, collate, seed=seed, depends_on=depends_on)


def fixed_masked(examples: Sequence[Example], masking: Masking, batch_tokens: int) -> list[Batch]:
    """All texts once, always with the same tokens left out: for scoring."""
    table = IdTable.of(examples)
    parts = ordered_rows(table, masking.layout, batch_tokens)
    rng = np.random.default_rng(FIXED_SEED)
    return [masking.batch(table, rows, rng) for rows in parts]
