"""Which heads look alike? As Clark et al. (2019) asked it of BERT.

The distance of two heads is the Jensen-Shannon divergence of their rows, averaged over the rows of
many sentences; in bits, so that it lies between 0 (always the same) and 1 (never a common place).
Heads are compared within one attention's name only: rows of the encoder and of the decoder belong
to other tokens, and self- and cross-attention look at other tokens, so no distance between them
would say anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.inspection.heads import Array, Ids, check, distributions, entropy, is_word

_A_JUMP = 1e-9
"""What is less is rounding."""


@dataclass(frozen=True, slots=True)
class Divergences:
    """Sums of divergences between heads over rows, and how many rows: both (H, H)."""

    sums: Array
    counts: Array

    def __add__(self, other: Divergences) -> Divergences:
        return Divergences(self.sums + other.sums, self.counts + other.counts)

    def mean(self) -> Array:
        """(H, H), symmetric, with zeros on the diagonal."""
        return self.sums / np.maximum(self.counts, 1)


def divergences(weights: NDArray[Any], rows: Ids, columns: Ids) -> Divergences:
    """Between all heads of a batch: weights (B, H, T, S); which rows count, ``tally`` tells too."""
    check(weights, rows, columns)
    chosen = weights.transpose(1, 0, 2, 3)[:, is_word(rows)]  # (H, rows, S)
    looks, seeing = distributions(chosen)
    spread = entropy(looks)  # (H, rows)
    H = len(looks)
    sums, counts = np.zeros((H, H)), np.zeros((H, H))
    for i in range(H):
        both = seeing[i] & seeing[i + 1 :]  # (later heads, rows)
        middle = entropy((looks[i] + looks[i + 1 :]) / 2)
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
    jumped = len(jumps) > 0 and jumps.max() > _A_JUMP
    chosen = states[int(jumps.argmax()) + 1] if jumped else states[0]
    order = {label: number for number, label in enumerate(dict.fromkeys(chosen.tolist()))}
    return [order[label] for label in chosen.tolist()]
