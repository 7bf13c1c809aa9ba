"""The adjectives.

The *decisive* ones fit either what lives or what does not, never both: after *because it was too*
they alone tell which of two nouns *it* means. The *neutral* ones only adorn.
"""

from __future__ import annotations

from collections.abc import Iterable

from regard.data.sentences import french
from regard.data.sentences.lexicon import Adjective, Kind

_FEMININES = {
    "beau": "belle",
    "blanc": "blanche",
    "long": "longue",
    "nouveau": "nouvelle",
    "vieux": "vieille",
}
_BEFORE_VOWEL = {"beau": "bel", "nouveau": "nouvel", "vieux": "vieil"}
_BEFORE = frozenset({"beau", "grand", "jeune", "long", "nouveau", "petit", "vieux"})


def _adjectives(about: Iterable[Kind], table: str) -> tuple[Adjective, ...]:
    """Adjectives from a table of *english french* entries divided by commas."""
    kinds = frozenset(about)
    return tuple(
        Adjective(
            en=en,
            fr=fr,
            fr_feminine=_FEMININES.get(fr, french.feminine(fr)),
            about=kinds,
            before=fr in _BEFORE,
            before_vowel=_BEFORE_VOWEL.get(fr),
        )
        for en, fr in (entry.split() for entry in table.split(","))
    )


_THINGS: tuple[Kind, ...] = ("road", "place", "food", "load", "part")

DECISIVE = (
    *_adjectives(
        ("animal", "human"),
        "tired fatigué, hungry affamé, thirsty assoiffé, sick malade, scared effrayé, "
        "lazy paresseux, shy timide, sad triste, furious furieux, clumsy maladroit, "
        "stubborn têtu, curious curieux, jealous jaloux, proud fier",
    ),
    *_adjectives(("road",), "wide large, long long, steep raide, slippery glissant, muddy boueux"),
    *_adjectives(("road", "place"), "narrow étroit, crowded bondé, dark sombre"),
    *_adjectives(("place",), "damp humide, dusty poussiéreux, empty vide"),
    *_adjectives(
        ("food",), "salty salé, sour acide, ripe mûr, bitter amer, sweet sucré, rotten pourri"
    ),
    *_adjectives(
        ("load",),
        "heavy lourd, bulky encombrant, fragile fragile, full plein, rusty rouillé, sticky collant",
    ),
)

NEUTRAL = (
    *_adjectives(("animal", "human", *_THINGS), "little petit, old vieux, strange étrange"),
    *_adjectives(("animal", "human"), "young jeune"),
    *_adjectives(("animal", *_THINGS), "big grand, beautiful beau"),
    *_adjectives(("animal", "place", "food", "load", "part"), "red rouge, black noir"),
    *_adjectives(("animal", "road", "place", "load", "part"), "white blanc"),
    *_adjectives(("place", "food", "load", "part"), "green vert"),
    *_adjectives(("place", "load", "part"), "new nouveau, blue bleu"),
    *_adjectives(("human", "road", "place"), "famous célèbre"),
)

MISLEADING = frozenset({("boy", "old"), ("girl", "old")})
"""*une vieille fille* is a spinster, *un vieux garçon* a bachelor."""
ONLY_ATTRIBUTIVE = frozenset(a for a in NEUTRAL if a.fr == "nouveau")
"""*la maison est nouvelle* would say something else than *the house is new*."""
