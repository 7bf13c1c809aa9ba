"""Where to write the names of points so that none covers another."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_RINGS, _WAYS = 16, 16
_STEP = 9  # from one ring to the next


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle, from its upper left corner."""

    x: float
    y: float
    width: float
    height: float

    def meets(self, other: Box) -> bool:
        """Whether they share any place."""
        return (
            self.x < other.x + other.width
            and other.x < self.x + self.width
            and self.y < other.y + other.height
            and other.y < self.y + self.height
        )

    def holds(self, other: Box) -> bool:
        """Whether the other lies inside."""
        return (
            self.x <= other.x
            and self.y <= other.y
            and other.x + other.width <= self.x + self.width
            and other.y + other.height <= self.y + self.height
        )


@dataclass(frozen=True, slots=True)
class Mark:
    """A circle, and the size of its name."""

    x: float
    y: float
    radius: float
    width: float
    height: float

    @property
    def box(self) -> Box:
        """What it covers."""
        size = 2 * self.radius
        return Box(self.x - self.radius, self.y - self.radius, size, size)


def place_labels(marks: Sequence[Mark], room: Box) -> list[Box]:
    """A box for each name: inside the room, beside its mark, clear of marks and other names.

    The nearest free place is taken; where none is free, the first one that was tried.
    """
    taken = [mark.box for mark in marks]
    placed = []
    for mark in marks:
        tried = list(_places(mark))
        free = (b for b in tried if room.holds(b) and not any(map(b.meets, taken)))
        box = next(free, tried[0])
        taken.append(box)
        placed.append(box)
    return placed


def _places(mark: Mark) -> Iterator[Box]:
    """Around the mark, right first, then farther out."""
    for ring in range(_RINGS):
        for way in range(_WAYS):
            angle = 2 * math.pi * way / _WAYS
            # From the mark's rim to the middle of the name, so that it just clears the mark.
            reach_x = mark.radius + 3 + _STEP * ring + mark.width / 2
            reach_y = mark.radius + 3 + _STEP * ring + mark.height / 2
            x, y = mark.x + reach_x * math.cos(angle), mark.y - reach_y * math.sin(angle)
            yield Box(x - mark.width / 2, y - mark.height / 2, mark.width, mark.height)
