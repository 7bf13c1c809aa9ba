"""Random numbers by name: a draw depends on what it is for, not on what was drawn before.

So the draws of one text are the same whichever texts come with it, in whatever order, and nothing
has to be kept for going on later. The mixing is that of SplitMix64 (Steele et al. 2014).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Keys = NDArray[np.uint64]

_STEP = np.uint64(0x9E3779B97F4A7C15)


def derive(keys: Keys, numbers: NDArray[np.int64] | int) -> Keys:
    """A new key for each key and number."""
    # Arrays wrap around; numpy warns where single numbers do.
    mixed = keys + np.atleast_1d(numbers).astype(np.uint64) * _STEP + _STEP
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def uniform(keys: Keys, number: int) -> NDArray[np.float64]:
    """A number from 0 to below 1 for each key."""
    return (derive(keys, number) >> np.uint64(11)).astype(np.float64) * 2.0**-53
