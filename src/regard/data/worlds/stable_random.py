"""Choices that are the same for a seed on every machine and with every Python."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class StableRandom:
    """Choices by one seeded generator; only its ``random()`` is used, which no Python changes."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed).random

    def one(self, things: Sequence[T]) -> T:
        """One of them, all alike."""
        return things[int(self._random() * len(things))]

    def chance(self, probability: float) -> bool:
        """Whether something happens this time."""
        return self._random() < probability

    def uniform(self, low: float, high: float) -> float:
        """A number from ``low`` on, below ``high``."""
        return low + (high - low) * self._random()

    def shuffled(self, things: Sequence[T]) -> list[T]:
        """All of them in an order of chance."""
        order = [(self._random(), i) for i in range(len(things))]
        return [things[i] for _, i in sorted(order)]
