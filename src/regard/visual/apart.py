"""Marks of a picture that would cover each other are moved apart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from regard.visual.labels import Box, Mark

_ROUNDS, _GAP = 100, 2.0


def moved_apart(marks: Sequence[Mark], room: Box) -> list[Mark]:
    """The marks, each pushed by half of what is missing, until none covers another.

    Those that cover none stay where they are, and all stay inside the room, where there is one.
    """
    places = list(marks)
    pairs = [(i, j) for j in range(len(places)) for i in range(j)]
    for _ in range(_ROUNDS):
        close = [pair for pair in pairs if _missing(places[pair[0]], places[pair[1]]) > 0.1]
        if not close:
            break
        for i, j in close:
            places[i], places[j] = _pushed(places[i], places[j], i + 2 * j, room)
    return places


def _missing(a: Mark, b: Mark) -> float:
    return a.radius + b.radius + _GAP - math.hypot(b.x - a.x, b.y - a.y)


def _pushed(a: Mark, b: Mark, number: int, room: Box) -> tuple[Mark, Mark]:
    """Along the line between them; where they share a place, the number gives a way."""
    half = max(0.0, _missing(a, b)) / 2
    together = math.hypot(b.x - a.x, b.y - a.y) < 1e-6
    turn = float(number) if together else math.atan2(b.y - a.y, b.x - a.x)
    across, down = half * math.cos(turn), half * math.sin(turn)
    return _inside(a, -across, -down, room), _inside(b, across, down, room)


def _inside(mark: Mark, across: float, down: float, room: Box) -> Mark:
    radius = mark.radius
    x = min(max(mark.x + across, room.x + radius), room.x + room.width - radius)
    y = min(max(mark.y + down, room.y + radius), room.y + room.height - radius)
    return replace(mark, x=x, y=y)
