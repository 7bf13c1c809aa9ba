"""Where else does a head do this? The pair of one text at which its weight is largest."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.core.errors import ShapeError


class StrongestPair(NamedTuple):
    """One weight of a head: row ``t``, column ``s``."""

    t: int
    s: int
    weight: float


def strongest_pair(
    weights: NDArray[Any], rows: Sequence[bool], columns: Sequence[bool]
) -> StrongestPair | None:
    """The largest of the weights (T, S) whose row and column are wanted; None where none is.

    Of equal ones it is the first, row by row.
    """
    if weights.shape != (len(rows), len(columns)):
        raise ShapeError(
            f"weights {weights.shape} do not fit {len(rows)} rows and {len(columns)} columns"
        )
    wanted = np.outer(rows, columns)
    if not wanted.any():
        return None
    t, s = divmod(int(np.where(wanted, weights, -np.inf).argmax()), len(columns))
    return StrongestPair(t, s, float(weights[t, s]))


def wanted(tokens: Sequence[str], meant: Collection[str]) -> list[bool]:
    """Which tokens are among those that are meant.

    >>> wanted(["the", "cat", "saw", "the", "dog"], {"the"})
    [True, False, False, True, False]
    """
    return [token in meant for token in tokens]
