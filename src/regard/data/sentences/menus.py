"""Which words may be drawn with which, and the combinations that training never shows."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from typing import TypeVar

from regard.data.sentences.adjectives import DECISIVE, MISLEADING, NEUTRAL, ONLY_ATTRIBUTIVE
from regard.data.sentences.lexicon import Adjective, Noun
from regard.data.sentences.nouns import (
    ANIMALS,
    FOODS,
    HUMANS,
    LOADS,
    PARTS,
    PLACES,
    ROADS,
)

T = TypeVar("T")

Combination = tuple[Noun, Adjective]

THINGS = (ROADS, PLACES, FOODS, LOADS)
_ALL = (*ANIMALS, *HUMANS, *ROADS, *PLACES, *FOODS, *LOADS, *PARTS)
_HELD_OUT_SHARE = 0.15
_LECTURE = frozenset({("animal", "tired"), ("street", "wide")})


class Draw:
    """Choices by one seeded generator; only ``random()`` is used, which no Python changes."""

    __slots__ = ("_random",)

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed).random

    def one(self, things: Sequence[T]) -> T:
        """One of them, all alike."""
        return things[int(self._random() * len(things))]

    def chance(self, probability: float) -> bool:
        """Whether something happens this time."""
        return self._random() < probability


def hold_out(draw: Draw) -> tuple[Combination, ...]:
    """Pairs of a noun and a decisive adjective that only ``pronouns`` may show.

    The lectures' two are among them: nothing that a model says of a tired animal or of a wide
    street was learned from tired animals or wide streets.
    """
    return tuple(
        (noun, adjective)
        for nouns in (ANIMALS, *THINGS)
        for noun in nouns
        for adjective in DECISIVE
        if noun.kind in adjective.about
        and (draw.chance(_HELD_OUT_SHARE) or (noun.en, adjective.en) in _LECTURE)
    )


class Menus:
    """The adjectives that each noun may be drawn with."""

    def __init__(self, held_out: Collection[Combination]) -> None:
        def fitting(noun: Noun, adjectives: Sequence[Adjective]) -> tuple[Adjective, ...]:
            return tuple(
                a
                for a in adjectives
                if noun.kind in a.about
                and (noun, a) not in held_out
                and (noun.en, a.en) not in MISLEADING
            )

        self.decisive = {noun: fitting(noun, DECISIVE) for noun in _ALL}
        """What *because it was too* may say of it."""
        self.stated = {
            noun: fitting(noun, [a for a in (*DECISIVE, *NEUTRAL) if a not in ONLY_ATTRIBUTIVE])
            for noun in _ALL
        }
        """What may follow *is*."""
        self.before = {
            noun: fitting(noun, [a for a in (*NEUTRAL, *DECISIVE) if a.before]) for noun in _ALL
        }
        """What may stand before the French noun."""
        self.after = {
            noun: fitting(noun, [a for a in (*NEUTRAL, *DECISIVE) if not a.before]) for noun in _ALL
        }
        """What may stand after it."""
        self.withheld = {noun: tuple(a for a in DECISIVE if (noun, a) in held_out) for noun in _ALL}
        """What training never says of it."""
