"""How well two lists of numbers agree."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from regard.core.errors import DataError


def pearson(first: Sequence[float], second: Sequence[float]) -> float:
    """Correlation, −1 to 1; nan where all numbers of a list are the same.

    >>> round(pearson([1, 2, 3], [2, 4, 7]), 4)
    0.9934
    """
    x, y = _numbers(first, second)
    x, y = x - x.mean(), y - y.mean()
    norm = float(np.sqrt((x @ x) * (y @ y)))
    return float(x @ y) / norm if norm else float("nan")


def spearman(first: Sequence[float], second: Sequence[float]) -> float:
    """Correlation of the ranks, equals sharing theirs.

    >>> spearman([1, 2, 3], [10, 100, 1000])
    1.0
    """
    x, y = _numbers(first, second)
    return pearson(_ranks(x).tolist(), _ranks(y).tolist())


def _ranks(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """From 1; equals get the mean of the ranks that they take together."""
    _, which, counts = np.unique(numbers, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[which]


def _numbers(
    first: Sequence[float], second: Sequence[float]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    if len(first) != len(second):
        raise DataError(f"{len(first)} numbers cannot be compared with {len(second)}")
    if len(first) < 2:
        raise DataError("a correlation needs at least two examples")
    return np.asarray(first, np.float64), np.asarray(second, np.float64)
