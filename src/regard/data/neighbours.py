"""Words with their neighbours, and with words that are none: what skip-gram is trained on.

Near is up to ``context`` words away, a width that is drawn anew for each word, so that the nearest
count most. Frequent words are left out at random and leave no gap. For each neighbour some words
are drawn that stand for those which are not near, by their frequency to the power of 3/4 (Mikolov
et al. 2013).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from regard.core.errors import DataError
from regard.data.batch import Batch
from regard.data.examples import Column, IdTable, Ints
from regard.data.row_batches import FIXED_SEED, SeededRows
from regard.data.stream import Stream

POWER = 0.75
"""Of the frequencies by which words that are not near are drawn."""
Shares = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """What counts as near, and how often each word (V,) is read or drawn."""

    context: int
    n_negatives: int
    kept: Shares
    noise: Shares

    @classmethod
    def of(
        cls, counts: Shares, split: str, *, context: int, n_negatives: int, threshold: float
    ) -> Neighbourhood:
        """By how often each word (V,) stands in the texts of a split."""
        if np.count_nonzero(counts) < 2:
            raise DataError(
                f"{split}: there are no neighbours to learn from, or to tell; give texts in which "
                "two different words stand that the training texts have"
            )
        return cls(context, n_negatives, kept_shares(counts, threshold), noise_shares(counts))

    def batch(self, table: IdTable, rows: Ints, rng: np.random.Generator) -> Batch:
        """``words`` (N,) and ``contexts`` (N, 1 + K): a neighbour each, then K drawn ones.

        Where all words of the texts happen to be left out, none is.
        """
        texts = [np.array(table.source[i], np.int64) for i in rows.tolist()]
        pairs = neighbours(texts, self.kept, self.context, rng)
        if not len(pairs):
            pairs = neighbours(texts, np.ones_like(self.kept), self.context, rng)
        drawn = rng.choice(len(self.noise), size=(len(pairs), self.n_negatives), p=self.noise)
        contexts = np.concatenate((pairs[:, 1:], drawn), axis=1)
        tensors = {"words": torch.from_numpy(pairs[:, 0].copy())}
        tensors["contexts"] = torch.from_numpy(contexts)
        return Batch(tensors, table.numbers_of(rows), count=len(pairs))


def word_table(texts: Sequence[Sequence[int]], silent: Collection[int]) -> IdTable:
    """Texts as ids without the ``silent`` ones; those with fewer than two words are left out."""
    spoken = [[one for one in text if one not in silent] for text in texts]
    kept = [i for i, text in enumerate(spoken) if len(text) > 1]
    column = Column.joined(spoken[i] for i in kept)
    return IdTable(column, column.cut(0), numbers=np.array(kept, np.int64))


def word_counts(table: IdTable, n_vocab: int) -> Shares:
    """How often each word (V,) stands in the texts of a table; the padding behind them is none."""
    return np.bincount(table.source.ids[:-1], minlength=n_vocab).astype(np.float64)


def neighbour_stream(
    table: IdTable, near: Neighbourhood, *, batch_tokens: int, seed: int
) -> Stream:
    """Neighbours without end; a batch is those of about ``batch_tokens`` words.

    Seed and epoch decide all, so that going on is exact.
    """

    def plan(table: IdTable, rng: np.random.Generator) -> list[SeededRows]:
        batches = _cut(table, rng.permutation(len(table)), batch_tokens)
        seeds = rng.integers(2**63 - 1, size=len(batches)).tolist()
        return list(map(SeededRows, batches, seeds))

    def collate(table: IdTable, part: SeededRows) -> Batch:
        return near.batch(table, part.rows, np.random.default_rng(part.seed))

    depends_on: dict[str, int | str] = {"batch_tokens": batch_tokens, "context": near.context}
    return Stream(table, plan, collate, seed=seed, depends_on=depends_on, split=SeededRows.part)


def fixed_neighbours(table: IdTable, near: Neighbourhood, batch_tokens: int) -> list[Batch]:
    """All texts once, always with the same neighbours and the same drawn words: for scoring."""
    rng = np.random.default_rng(FIXED_SEED)
    batches = _cut(table, np.arange(len(table)), batch_tokens)
    return [near.batch(table, rows, rng) for rows in batches]


def _cut(table: IdTable, order: Ints, batch_tokens: int) -> list[Ints]:
    """Texts in an order, cut where ``batch_tokens`` words are full."""
    ends = np.cumsum(table.source.lengths[order])
    return np.split(order, np.flatnonzero(np.diff((ends - 1) // batch_tokens)) + 1)


def noise_shares(counts: Shares) -> Shares:
    """How often each word (V,) is drawn as not near: its frequency to the power of 3/4."""
    raised = counts**POWER
    return raised / raised.sum()


def kept_shares(counts: Shares, threshold: float) -> Shares:
    """The chance (V,) that a word is read at all, where it stands."""
    return np.minimum(1.0, np.sqrt(threshold * counts.sum() / np.maximum(counts, 1.0)))


def neighbours(texts: Sequence[Ints], kept: Shares, context: int, rng: np.random.Generator) -> Ints:
    """Pairs (N, 2) of a word and one near it; words that are not kept leave no gap."""
    ids = np.concatenate([np.empty(0, np.int64), *texts])
    read = rng.random(len(ids)) < kept[ids]
    ids, text = ids[read], np.repeat(np.arange(len(texts)), [len(one) for one in texts])[read]
    reach = rng.integers(1, context + 1, len(ids))
    found = [np.empty((0, 2), np.int64)]
    for distance in range(1, min(context, len(ids) - 1) + 1):
        left, right = ids[:-distance], ids[distance:]
        together = text[:-distance] == text[distance:]
        found.append(np.stack((left, right), 1)[together & (reach[:-distance] >= distance)])
        found.append(np.stack((right, left), 1)[together & (reach[distance:] >= distance)])
    return np.concatenate(found)
