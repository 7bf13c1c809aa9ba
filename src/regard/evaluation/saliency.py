"""Where a model looks in a picture, beside where the object is, or where people looked; how far.

Maps (n, R, C) have a weight a patch; masks (n, H, W) say where the object of each word is. Every
measure is told beside two baselines that know nothing of the word: the maps of other examples
(shuffled), and a Gaussian around the middle of the picture (centre).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from regard.evaluation.metrics import check_parallel

Maps = NDArray[np.floating]
Masks = NDArray[np.bool_]
CENTRE = 0.25
"""Deviation of the centre baseline, in sides of the picture."""


def pointing_accuracy(maps: Maps, masks: Masks) -> float:
    """Share of maps whose largest weight is on a patch that shows a part of the object."""
    check_parallel(maps=maps, masks=masks)
    touched = covered(masks, maps.shape[1:]) > 0
    at = maps.reshape(len(maps), -1).argmax(axis=1)
    return float(np.mean(touched.reshape(len(maps), -1)[np.arange(len(maps)), at]))


def mass_inside(maps: Maps, masks: Masks) -> float:
    """Mean share of the weight on the object; a patch counts by how much of it the object fills."""
    check_parallel(maps=maps, masks=masks)
    inside = (maps * covered(masks, maps.shape[1:])).sum(axis=(1, 2))
    total = maps.sum(axis=(1, 2))
    return float(np.mean(np.divide(inside, total, out=np.zeros(len(maps)), where=total > 0)))


def rank_correlation(maps: Maps, masks: Masks) -> float:
    """Mean Spearman correlation of the weights with how much of each patch the object fills.

    Examples in which either is the same everywhere count as 0.
    """
    from scipy.stats import rankdata

    check_parallel(maps=maps, masks=masks)
    both = (maps, covered(masks, maps.shape[1:]))
    a, b = (rankdata(one.reshape(len(maps), -1), axis=1) for one in both)
    a, b = a - a.mean(axis=1, keepdims=True), b - b.mean(axis=1, keepdims=True)
    norms = np.sqrt((a**2).sum(axis=1) * (b**2).sum(axis=1))
    found = np.divide((a * b).sum(axis=1), norms, out=np.zeros(len(maps)), where=norms > 0)
    return float(found.mean())


MEASURES: dict[str, Callable[[Maps, Masks], float]] = {
    "pointing_accuracy": pointing_accuracy,
    "mass_inside": mass_inside,
    "rank_correlation": rank_correlation,
}


def looking(maps: Maps, masks: Masks, *, seed: int = 0) -> dict[str, float]:
    """Every measure, and the same of the two baselines as ``NAME_shuffled`` and ``NAME_centre``."""
    order = derangement(len(maps), seed)
    others = {"": maps, "_shuffled": maps[order], "_centre": centre_maps(maps)}
    return {
        f"{name}{suffix}": measure(some, masks)
        for name, measure in MEASURES.items()
        for suffix, some in others.items()
    }


def looking_rows(found: Mapping[str, float]) -> list[tuple[str, float, float, float]]:
    """What ``looking`` found, a row a measure: its name, its value, shuffled, centre."""
    return [
        (name.replace("_", " "), found[name], found[f"{name}_shuffled"], found[f"{name}_centre"])
        for name in MEASURES
    ]


def nss(maps: Maps, fixations: Sequence[NDArray[np.floating]]) -> float:
    """Normalised scanpath saliency (Peters et al. 2005): the mean weight where people looked.

    Each map is standardised first, so 0 is chance. Fixations (m, 2) are x and y as shares of the
    sides. A map that is the same everywhere counts as 0.
    """
    check_parallel(maps=maps, fixations=fixations)
    rows, columns = maps.shape[1:]
    found = []
    for one, points in zip(maps, fixations, strict=True):
        size = one.std()
        x, y = (points.clip(0, 1 - 1e-9) * (columns, rows)).astype(int).T
        found.append(((one[y, x] - one.mean()) / size).mean() if size else 0.0)
    return float(np.mean(found))


def covered(masks: Masks, grid: tuple[int, ...]) -> NDArray[np.float64]:
    """(n, R, C): the share of each patch that the object fills; sides must be whole patches."""
    n, height, width = masks.shape
    rows, columns = grid
    tiles = masks.reshape(n, rows, height // rows, columns, width // columns)
    return tiles.mean(axis=(2, 4))


def centre_maps(maps: Maps) -> NDArray[np.float64]:
    """A Gaussian around the middle, for each map."""
    sides = [(np.arange(size) + 0.5) / size - 0.5 for size in maps.shape[1:]]
    y, x = np.meshgrid(*sides, indexing="ij")
    return np.broadcast_to(np.exp(-(x**2 + y**2) / (2 * CENTRE**2)), maps.shape)


def derangement(n: int, seed: int) -> NDArray[np.int64]:
    """Another example for each of n: a rotation of a random order, in which nobody keeps a place.

    >>> order = derangement(5, seed=0)
    >>> sorted(order.tolist()), bool((order == np.arange(5)).any())
    ([0, 1, 2, 3, 4], False)
    """
    order = np.random.RandomState(seed).permutation(n)
    found = np.empty(n, np.int64)
    found[order] = np.roll(order, 1)
    return found


def attention_distance(weights: Maps, grid: tuple[int, int], patch: float) -> NDArray[np.float64]:
    """Mean distance in pixels from each patch to where it looks, by head (Dosovitskiy et al. 2021).

    Weights (H, N, N) among patches alone, row by row; rows are made to sum to 1.
    """
    rows, columns = grid
    y, x = np.divmod(np.arange(rows * columns), columns)
    apart = patch * np.hypot(x[:, None] - x, y[:, None] - y)
    total = weights.sum(axis=-1)
    found = (weights * apart).sum(axis=-1) / np.where(total > 0, total, 1)
    return found.mean(axis=-1)


def position_similarities(table: Maps, grid: tuple[int, int]) -> NDArray[np.float64]:
    """Cosines of each patch's learned position with all others (Dosovitskiy et al. 2021, figure 7).

    Vectors (N, D), row by row -> (R, C, R, C): the first two say whose, the last two with whom.
    """
    lengths = np.linalg.norm(table, axis=1, keepdims=True)
    units = table / np.where(lengths > 0, lengths, 1)
    return (units @ units.T).reshape(*grid, *grid)
