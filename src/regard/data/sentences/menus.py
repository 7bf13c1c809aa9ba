"""Which words may be drawn with which, and the combinations that training never shows."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence

from regard.data.draw import Draw
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

Combination = tuple[Noun, Adjective]

THINGS = (ROADS, PLACES, FOODS, LOADS)
_ALL = (*ANIMALS, *HUMANS, *ROADS, *PLACES, *FOODS, *LOADS, *PARTS)
_ONE_IN = 6  # of the decisive adjectives that fit a noun, one in so many is held out
_LECTURE = frozenset({("animal", "tired"), ("street", "wide")})


def hold_out(draw: Draw) -> tuple[Combination, ...]:
    """Pairs of a noun and a decisive adjective that only ``pronouns`` may show.

    Nouns take turns, so that all nouns and all adjectives of a kind lose about equally many
    partners. The lectures' two pairs are among them: nothing that a model says of a tired animal
    or of a wide street was learned from tired animals or wide streets.
    """
    held_out = dict.fromkeys(
        (noun, adjective)
        for nouns in (ANIMALS, *THINGS)
        for noun in nouns
        for adjective in DECISIVE
        if (noun.en, adjective.en) in _LECTURE
    )
    for nouns in (ANIMALS, *THINGS):
        adjectives = draw.shuffled([a for a in DECISIVE if nouns[0].kind in a.about])
        turns = itertools.cycle(adjectives)
        for noun in draw.shuffled(nouns):
            for _ in range(len(adjectives) // _ONE_IN):
                held_out[noun, next(turns)] = None
    return tuple(held_out)


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
