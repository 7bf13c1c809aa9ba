"""Which learning rate a system is trained with: rates are tried, the best of them for longer.

Rates stand a factor of two apart, around the recipe's own, and are judged by the loss on valid.
The first trials are short, and those that did best, or cannot be told from the best, go on to long
ones (successive halving, Jamieson & Talwalkar 2016). Where the best is the smallest or the largest
of its length, the next one beyond is tried as well, until it has been beaten on both sides by
trials as long as its own: longer trainings want lower rates.
A trial is a training of its own, whose rate falls to zero: half a schedule would judge another one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from regard.core.errors import TrainingError

STEP = 2.0
"""Between a rate and the next."""
REACH = 4
"""Steps that the grid widens to, at most, on each side of the recipe's own rate."""
SHARES = (1 / 8, 1 / 2)
"""Of the budget, for a trial: the short ones, then the long ones."""
LEAST_STEPS = 100
"""Trials of fewer updates tell nothing, and the short ones are left out."""
KEPT = 2
"""Rates that go on from the short trials to the long ones, at least."""
BEATEN = 3
"""Trials of each length, at least: the best rate, and one on each side of it."""
ALIKE = 0.01
"""Losses that differ by no more than this share of the best cannot be told apart."""
HORIZON = 0.32
"""The best rate falls with the length of a training, as this power of it (Bjorck et al. 2025)."""
FIRST = (-1, 0, 1)
"""The grid before it widens, in steps from the recipe's own rate."""


@dataclass(frozen=True, slots=True)
class Trial:
    """A learning rate, what it came to on ``valid``, and what it cost to find out."""

    lr: float
    loss: float | None
    """None where the training could not go on."""
    flops: float
    seconds: float
    share: float = SHARES[-1]
    """Of the budget."""


@dataclass(frozen=True, slots=True)
class RateSearch:
    """All trials of a system, and the rate that they chose."""

    trials: tuple[Trial, ...]
    lr: float
    bounded: bool = False
    """Whether the grid could not widen further on the side of the rate: a better may be beyond."""


Try = Callable[[float, float, float], Trial]
"""A rate, its share of the budget, and the shares of the trials known to follow -> what came."""


def rate_at(centre: float, steps: int) -> float:
    """A rate of the grid, rounded to three digits.

    >>> [rate_at(0.003, steps) for steps in FIRST]
    [0.0015, 0.003, 0.006]
    """
    return float(f"{centre * STEP**steps:.3g}")


def rate_for(steps: int, chosen: float, tried: int) -> float:
    """The rate of a training of so many steps, given that ``chosen`` by trials of others.

    It is never higher than that one, which is known to be sound.

    >>> rate_for(5000, 0.008, 287), rate_for(100, 0.008, 287)
    (0.00321, 0.008)
    """
    return float(f"{chosen * min(1.0, tried / steps) ** HORIZON:.3g}")


def is_at_edge(rate: float, tried: Sequence[float]) -> bool:
    """Whether it is the smallest or the largest of several, so that a better may lie beyond.

    >>> is_at_edge(2, [1, 2, 4]), is_at_edge(4, [1, 2, 4]), is_at_edge(1, [1, 1])
    (False, True, False)
    """
    return len(set(tried)) > 1 and rate in (min(tried), max(tried))


def least_cost(shares: Sequence[float] = SHARES) -> float:
    """Shares of the budget that a search takes where the grid need not widen."""
    return BEATEN * sum(shares)


def search_rate(centre: float, shares: Sequence[float], tried: Try) -> RateSearch:
    """Try rates around ``centre``, by trials of each of the ``shares`` in turn."""
    trials: list[Trial] = []
    candidates: Sequence[int] = FIRST
    losses: dict[int, float] = {}
    for n, share in enumerate(shares):
        later, losses = least_cost(shares[n + 1 :]), {}
        waiting = list(candidates)
        while waiting:
            at = waiting.pop(0)
            following = max(len(waiting), BEATEN - len(losses) - 1)
            trial = tried(rate_at(centre, at), share, share * following + later)
            trials.append(trial)
            losses[at] = math.inf if trial.loss is None else trial.loss
            if not waiting and (beyond := _beyond(losses)) is not None:
                waiting.append(beyond)
        candidates = _best(losses)
        if not candidates:
            rates = ", ".join(f"{rate:g}" for rate in sorted({trial.lr for trial in trials}))
            raise TrainingError(f"no learning rate of {rates} led anywhere; lower train.lr")
    best = min(losses, key=lambda at: (losses[at], at))
    return RateSearch(tuple(trials), rate_at(centre, best), best in (min(losses), max(losses)))


def _beyond(losses: dict[int, float]) -> int | None:
    """The next rate of a grid whose best is at an edge; a lower one where none led anywhere."""
    best = min(losses, key=lambda at: (losses[at], at))
    if math.isinf(losses[best]) or best == min(losses):
        following = best - 1
    elif best == max(losses):
        following = best + 1
    else:
        return None
    return following if abs(following) <= REACH else None


def _best(losses: dict[int, float]) -> list[int]:
    """What goes on: the best, and whatever cannot be told from the best; in order of the rates."""
    order = sorted((loss, at) for at, loss in losses.items() if math.isfinite(loss))
    alike = [at for loss, at in order if loss <= order[0][0] * (1 + ALIKE)]
    return sorted({*alike, *(at for _, at in order[:KEPT])})
