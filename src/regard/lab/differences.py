"""Whether a difference is more than luck: its mean over trainings and sentences, and its interval.

Of several trainings the interval is Student's, from how far they and the sentences lie apart: a
bootstrap over three of them would be too narrow. Of one training it is a bootstrap over the
sentences, and knows nothing of the luck of trainings.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

N_DRAWS = 1000
ENDS = (0.025, 0.975)
"""Of what may be, below and above which an interval ends."""
Floats = NDArray[np.float64]


class Difference(NamedTuple):
    """A mean, and its interval of 95 %."""

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
    low, high = _bootstrap(rows[0]) if len(rows) == 1 else _student(rows)
    return Difference(float(rows.mean()), low, high)


def _bootstrap(found: Floats) -> tuple[float, float]:
    """Sentences are drawn again from those there are."""
    rng, n = np.random.default_rng(0), len(found)
    draws = [found[rng.integers(n, size=n)].mean() for _ in range(N_DRAWS)]
    low, high = np.quantile(draws, ENDS).tolist()
    return low, high


def _student(rows: Floats) -> tuple[float, float]:
    """By Student's t of the trainings (n, m): the mean has the luck of n trainings, and that of m
    sentences, which all of them were asked."""
    from scipy.stats import t

    n, m = rows.shape
    luck = rows.mean(axis=1).var(ddof=1) / n
    if m > 1:
        luck += rows.mean(axis=0).var(ddof=1) / m
    far = float(t.ppf(ENDS[1], n - 1) * np.sqrt(luck))
    mean = float(rows.mean())
    return mean - far, mean + far


def of_trainings(n: int) -> str:
    """What an interval over so many trainings knows, for a finding."""
    if n > 1:
        return f"{n} trainings each; t-intervals over trainings and sentences"
    return "one training each; intervals are of a bootstrap over sentences, not over trainings"
