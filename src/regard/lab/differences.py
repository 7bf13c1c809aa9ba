"""Whether a difference is more than luck: its mean over trainings and sentences, by a bootstrap.

Trainings are drawn again from those there are, and sentences too, so that an interval knows the
luck of both; of one training alone it knows that of the sentences.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

N_DRAWS = 1000
ENDS = (0.025, 0.975)
"""Of the draws, below and above which an interval ends."""


class Difference(NamedTuple):
    """A mean, and the interval that holds it in 95 % of the draws."""

    mean: float
    low: float
    high: float

    @property
    def positive(self) -> bool:
        """Whether it is above zero, and not by luck."""
        return self.low > 0

    def within(self, margin: float) -> bool:
        """Whether it is surely smaller than a margin, on either side: two things are as good."""
        return -margin < self.low and self.high < margin

    def __str__(self) -> str:
        return f"{self.mean:+.2f} (95 %: {self.low:+.2f} to {self.high:+.2f})"


def difference(found: ArrayLike) -> Difference:
    """Of differences (trainings, sentences), or (sentences,) where there is one training."""
    rows = np.atleast_2d(np.asarray(found, dtype=np.float64))
    rng = np.random.default_rng(0)
    draws = np.empty(N_DRAWS)
    for i in range(N_DRAWS):
        trainings, sentences = (rng.integers(n, size=n) for n in rows.shape)
        draws[i] = rows[trainings][:, sentences].mean()
    low, high = np.quantile(draws, ENDS).tolist()
    return Difference(float(rows.mean()), low, high)


def of_trainings(n: int) -> str:
    """What an interval over so many trainings knows, for a finding."""
    if n > 1:
        return f"{n} trainings each; intervals are of a bootstrap over trainings and sentences"
    return "one training each; intervals are of a bootstrap over sentences, not over trainings"
