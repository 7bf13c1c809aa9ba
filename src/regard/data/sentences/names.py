"""People, places on the map, months, professions, and the small words of place and time."""

from __future__ import annotations

from regard.data.sentences import french
from regard.data.sentences.lexicon import Name, Place, Preposition, Profession

NAMES = (
    *(Name(text, feminine=False) for text in "john paul peter david thomas martin simon".split()),
    *(Name(text, feminine=True) for text in "mary jane anna alice emma julia sarah".split()),
)


def _places(article: str, preposition: str, table: str) -> tuple[Place, ...]:
    entries = (entry.split() for entry in table.split(","))
    return tuple(Place(en, fr, article, preposition) for en, fr in entries)


LANDS = (
    *_places(
        "la",
        "en",
        "africa afrique, europe europe, asia asie, france france, china chine, spain espagne, "
        "italy italie, greece grèce",
    ),
    *_places("le", "au", "canada canada, japan japon, brazil brésil, portugal portugal"),
)
CITIES = _places(
    "",
    "à",
    "paris paris, london londres, rome rome, berlin berlin, lisbon lisbonne, geneva genève, "
    "vienna vienne, madrid madrid",
)

MONTHS = tuple(
    zip(
        "january february march april may june july august september october november "
        "december".split(),
        "janvier février mars avril mai juin juillet août septembre octobre novembre "
        "décembre".split(),
        strict=True,
    )
)

_UNCHANGED = frozenset({"médecin"})
PROFESSIONS = tuple(
    Profession(en, fr, fr if fr in _UNCHANGED else french.feminine(fr))
    for en, fr in (
        entry.split()
        for entry in (
            "student étudiant, lawyer avocat, musician musicien, singer chanteur, baker boulanger, "
            "journalist journaliste, pilot pilote, doctor médecin"
        ).split(",")
    )
)

IN = Preposition("in", ("dans",))
NEAR = Preposition("near", ("près", "de"))
BEHIND = Preposition("behind", ("derrière",))
WITH = Preposition("with", ("avec",))
TO = Preposition("to", ("à",))
OF = Preposition("of", ("de",))
