"""What heads do, as numbers: what each looks at, which look alike, and where layers lead together.

Measures are means over the rows of many sentences. Every row of weights is first brought to sum to
1, for the question is where a head looks, not how strongly. What does not count as a row: padding,
special tokens (they ask for no word), and rows that see nothing.

Heads are compared as Clark et al. (2019) did it for BERT: their distance is the Jensen-Shannon
divergence of their rows, averaged over the rows of many sentences, in bits, so that it lies between
0 (always the same) and 1 (never a common place). Only heads of one attention's name are: rows of
the encoder and of the decoder belong to other tokens, and cross-attention looks at others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from regard.core.errors import ShapeError
from regard.text.specials import BEGIN_ID, END_ID, PAD_ID

Array = NDArray[np.float64]
Ids = NDArray[np.int64]
Flags = NDArray[np.bool_]

_JUMP = 1e-9  # of a distance between clusters; what is less is rounding
MEASURES = (
    "entropy",  # of a row, in bits: 0 looks at one place, log2 S at S of them alike
    "confidence",  # the largest weight of a row
    "self",  # weight on the place itself; in a decoder, on the token just read
    "previous",  # weight on the word before, where there is one
    "next",  # weight on the word after, where there is one
    "first",  # weight on the first place; in a decoder, the begin token
    "separator",  # weight on the end token
    "distance",  # places to what is looked at, over all weight on words: special tokens are none
)


@dataclass(frozen=True)
class HeadSums:
    """Sums over batches, and what they are to be divided by."""

    sums: Array
    counts: Array

    def __add__(self, other: Self) -> Self:
        return type(self)(self.sums + other.sums, self.counts + other.counts)


class HeadTally(HeadSums):
    """Weighted sums of every measure for every head, and the weight they rest on: both (M, H)."""

    def means(self) -> dict[str, list[float | None]]:
        """Measure -> its mean for each head; None where no row has such a place."""
        return {
            name: [float(a / b) if b > 0 else None for a, b in zip(sums, counts, strict=True)]
            for name, sums, counts in zip(MEASURES, self.sums, self.counts, strict=True)
        }


def tally(weights: NDArray[Any], rows: Ids, columns: Ids, *, same: bool) -> HeadTally:
    """The measures of a batch: weights (B, H, T, S), ids of its rows (B, T) and columns (B, S).

    With ``same`` rows and columns are the same places, as in self-attention; without, there is no
    self, previous and next.
    """
    _check(weights, rows, columns)
    looks, seeing = _distributions(weights)
    asks = (_is_word(rows)[:, None] & seeing).astype(float)  # (B, H, T)
    found = dict(_everywhere(looks, asks, columns))
    if same:
        found |= dict(_neighbours(looks, asks, _is_word(columns)))
    nothing = np.zeros(weights.shape[1])
    sums, counts = zip(*(found.get(name, (nothing, nothing)) for name in MEASURES), strict=True)
    return HeadTally(np.stack(sums), np.stack(counts))


class Divergences(HeadSums):
    """Sums of divergences between heads over rows, and how many rows: both (H, H)."""

    def mean(self) -> Array:
        """(H, H), symmetric, with zeros on the diagonal."""
        return self.sums / np.maximum(self.counts, 1)


def divergences(weights: NDArray[Any], rows: Ids, columns: Ids) -> Divergences:
    """Between all heads of a batch: weights (B, H, T, S); which rows count, ``tally`` tells too."""
    _check(weights, rows, columns)
    chosen = weights.transpose(1, 0, 2, 3)[:, _is_word(rows)]  # (H, rows, S)
    looks, seeing = _distributions(chosen)
    spread = _entropy(looks)  # (H, rows)
    H = len(looks)
    sums, counts = np.zeros((H, H)), np.zeros((H, H))
    for i in range(H):
        both = seeing[i] & seeing[i + 1 :]  # (later heads, rows)
        middle = _entropy((looks[i] + looks[i + 1 :]) / 2)
        # Rounding can leave a trace below 0 where two rows are equal.
        apart = np.maximum(0, middle - (spread[i] + spread[i + 1 :]) / 2) * both
        sums[i, i + 1 :] = sums[i + 1 :, i] = apart.sum(axis=1)
        counts[i, i + 1 :] = counts[i + 1 :, i] = both.sum(axis=1)
    return Divergences(sums, counts)


def plane(distances: Array) -> Array:
    """Distances (N, N) -> points (N, 2) that keep them as well as a plane can.

    Classical multidimensional scaling: the two main axes of the points that the distances tell of.
    Which way an axis points is settled by its largest coordinate, which is positive.
    """
    N = len(distances)
    centring = np.eye(N) - 1 / N
    values, vectors = np.linalg.eigh(-0.5 * centring @ np.square(distances) @ centring)
    places = np.zeros((N, 2))
    for axis, i in enumerate(np.argsort(-values)[:2]):
        column = vectors[:, i] * np.sqrt(max(0.0, float(values[i])))
        places[:, axis] = column * (np.sign(column[np.abs(column).argmax()]) or 1)
    return places


def clusters(distances: Array) -> list[int]:
    """The cluster of each of N heads, numbered from 0 in the order of their first members.

    The two nearest clusters are joined again and again, where nearness is the mean distance of
    their members; of all the states on the way, the one before the largest jump of that distance
    counts. Without any jump all belong together.
    """
    N = len(distances)
    apart = np.where(np.eye(N, dtype=bool), np.inf, distances)
    labels, states, heights = np.arange(N), [np.zeros(N, dtype=np.int64)], []
    for _ in range(N - 1):
        i, j = sorted(map(int, np.unravel_index(apart.argmin(), apart.shape)))
        heights.append(float(apart[i, j]))
        n_i, n_j = np.sum(labels == i), np.sum(labels == j)
        apart[i] = apart[:, i] = (n_i * apart[i] + n_j * apart[j]) / (n_i + n_j)
        apart[i, i] = apart[j] = apart[:, j] = np.inf  # j is gone
        labels = np.where(labels == j, i, labels)
        states.append(labels)
    jumps = np.diff(heights)
    jumped = len(jumps) > 0 and jumps.max() > _JUMP
    chosen = states[int(jumps.argmax()) + 1] if jumped else states[0]
    order = {label: number for number, label in enumerate(dict.fromkeys(chosen.tolist()))}
    return [order[label] for label in chosen.tolist()]


def rollout(layers: Sequence[NDArray[np.floating]]) -> NDArray[np.float64]:
    """Self-attention weights (H, T, T) of each layer, lowest first -> (T, T); rows sum to 1.

    Abnar & Zuidema 2020. The residual stream carries every position past an attention, so half of
    what a layer passes on is taken to be the position itself; layers multiply. Feed-forward
    networks, values and W_o are left out: a rough map of where information could have come from.
    """
    shapes = {weights.shape[1:] for weights in layers}
    if len(shapes) != 1 or len(set(*shapes)) != 1:
        raise ShapeError(
            f"rollout follows self-attention, whose weights are (H, T, T); got {sorted(shapes)}"
        )
    n = layers[0].shape[-1]
    through = np.eye(n)
    for weights in layers:
        step = 0.5 * weights.mean(axis=0, dtype=np.float64) + 0.5 * np.eye(n)
        through = step / step.sum(axis=-1, keepdims=True) @ through
    return through


def _distributions(weights: NDArray[Any]) -> tuple[Array, Flags]:
    """Weights (…, S) -> rows that sum to 1 (…, S), and whether they see anything (…)."""
    exact = weights.astype(np.float64)
    total = exact.sum(axis=-1)
    return exact / np.where(total > 0, total, 1)[..., None], total > 0


def _entropy(looks: Array) -> Array:
    """Bits of each row: (…, S) -> (…)."""
    return -np.sum(looks * np.log2(np.where(looks > 0, looks, 1)), axis=-1)


def _is_word(ids: Ids) -> Flags:
    """True where an id is neither padding, begin nor end."""
    return ~np.isin(ids, (PAD_ID, BEGIN_ID, END_ID))


def _check(weights: NDArray[Any], rows: Ids, columns: Ids) -> None:
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
    yield "entropy", ((_entropy(looks) * asks).sum(axis=over), rows)
    yield "confidence", ((looks.max(axis=-1) * asks).sum(axis=over), rows)
    yield "first", ((looks[..., 0] * asks).sum(axis=over), rows)
    ends = (columns == END_ID).astype(float)  # (B, S)
    ended = asks * ends.any(axis=-1)[:, None, None]
    on_ends = np.einsum("bhts,bs->bht", looks, ends)
    yield "separator", ((on_ends * ended).sum(axis=over), ended.sum(axis=over))
    T, S = looks.shape[-2:]
    on_words = looks * _is_word(columns)[:, None, None] * asks[..., None]
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
        there = looks[:, :, t, t + step] * counted
        yield name, (there.sum(axis=(0, 2)), counted.sum(axis=(0, 2)))
