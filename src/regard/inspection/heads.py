"""What a head looks at, as numbers: means over the rows of many sentences.

Every row of weights is first brought to sum to 1, for the question is where a head looks, not how
strongly. What does not count as a row: padding, special tokens (they ask for no word), and rows
that see nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.core.errors import ShapeError
from regard.text.specials import BEGIN_ID, END_ID, PAD_ID

Array = NDArray[np.float64]
Ids = NDArray[np.int64]
Flags = NDArray[np.bool_]

MEASURES = (
    "entropy",
    "confidence",
    "self",
    "previous",
    "next",
    "first",
    "separator",
    "distance",
)
"""entropy     of a row, in bits: 0 looks at one place, log2 S at S of them alike
confidence  the largest weight of a row
self        weight on the place itself; in a decoder, on the token just read
previous    weight on the word before, where there is one
next        weight on the word after, where there is one
first       weight on the first place; in a decoder, the begin token
separator   weight on the end token
distance    places between asker and looked-at, over all weight on words: a head that has
            nothing to say often looks at a special token, which is no distance
"""


@dataclass(frozen=True, slots=True)
class Tally:
    """Weighted sums of every measure for every head, and the weight they rest on: both (M, H)."""

    sums: Array
    counts: Array

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.sums + other.sums, self.counts + other.counts)

    def means(self) -> dict[str, list[float | None]]:
        """Measure -> its mean for each head; None where no row has such a place."""
        return {
            name: [float(a / b) if b > 0 else None for a, b in zip(sums, counts, strict=True)]
            for name, sums, counts in zip(MEASURES, self.sums, self.counts, strict=True)
        }


def tally(weights: NDArray[Any], rows: Ids, columns: Ids, *, same: bool) -> Tally:
    """The measures of a batch: weights (B, H, T, S), ids of its rows (B, T) and columns (B, S).

    With ``same`` rows and columns are the same places, as in self-attention; without, there is no
    self, previous and next.
    """
    check(weights, rows, columns)
    looks, seeing = distributions(weights)
    asks = (is_word(rows)[:, None] & seeing).astype(float)  # (B, H, T)
    found = dict(_everywhere(looks, asks, columns))
    if same:
        found |= dict(_neighbours(looks, asks, is_word(columns)))
    nothing = np.zeros(weights.shape[1])
    pairs = [found.get(name, (nothing, nothing)) for name in MEASURES]
    return Tally(np.stack([sums for sums, _ in pairs]), np.stack([counts for _, counts in pairs]))


def distributions(weights: NDArray[Any]) -> tuple[Array, Flags]:
    """Weights (…, S) -> rows that sum to 1 (…, S), and whether they see anything (…)."""
    exact = weights.astype(np.float64)
    total = exact.sum(axis=-1)
    return exact / np.where(total > 0, total, 1)[..., None], total > 0


def entropy(looks: Array) -> Array:
    """Bits of each row: (…, S) -> (…)."""
    return -np.sum(looks * np.log2(np.where(looks > 0, looks, 1)), axis=-1)


def is_word(ids: Ids) -> Flags:
    """True where an id is neither padding, begin nor end."""
    return ~np.isin(ids, (PAD_ID, BEGIN_ID, END_ID))


def check(weights: NDArray[Any], rows: Ids, columns: Ids) -> None:
    """Refuse ids that are not those of the weights."""
    B, _, T, S = weights.shape
    if rows.shape != (B, T) or columns.shape != (B, S):
        raise ShapeError(
            f"weights {weights.shape} are (B, H, T, S): expected rows {(B, T)} and columns "
            f"{(B, S)}, got ids {rows.shape} and {columns.shape}"
        )


def _everywhere(
    looks: Array, asks: Array, columns: Ids
) -> Iterator[tuple[str, tuple[Array, Array]]]:
    """What every attention has, as (name, (sums, counts)) with one number a head."""
    rows, over = asks.sum(axis=(0, 2)), (0, 2)
    yield "entropy", ((entropy(looks) * asks).sum(axis=over), rows)
    yield "confidence", ((looks.max(axis=-1) * asks).sum(axis=over), rows)
    yield "first", ((looks[..., 0] * asks).sum(axis=over), rows)
    ends = (columns == END_ID).astype(float)  # (B, S)
    ended = asks * ends.any(axis=-1)[:, None, None]
    on_ends = np.einsum("bhts,bs->bht", looks, ends)
    yield "separator", ((on_ends * ended).sum(axis=over), ended.sum(axis=over))
    T, S = looks.shape[-2:]
    on_words = looks * is_word(columns)[:, None, None] * asks[..., None]
    apart = np.abs(np.arange(T)[:, None] - np.arange(S))
    yield "distance", ((on_words * apart).sum(axis=(0, 2, 3)), on_words.sum(axis=(0, 2, 3)))


def _neighbours(
    looks: Array, asks: Array, words: Flags
) -> Iterator[tuple[str, tuple[Array, Array]]]:
    """Weight on the place itself and on the words beside it."""
    steps: Mapping[str, int] = {"self": 0, "previous": -1, "next": 1}
    T = looks.shape[-2]
    for name, step in steps.items():
        t = np.arange(max(0, -step), T - max(0, step))  # rows that have this neighbour
        counted = asks[:, :, t] * words[:, None, t + step]
        yield (
            name,
            ((looks[:, :, t, t + step] * counted).sum(axis=(0, 2)), counted.sum(axis=(0, 2))),
        )
