"""People, places on the map, months, professions, and the small words of place and time."""

from __future__ import annotations

from regard.data.sentences import french
from regard.data.sentences.lexicon import Name, Place, Preposition, Profession

_MEN = ("john", "paul", "peter", "david", "thomas", "martin")
_WOMEN = ("mary", "jane", "anna", "alice", "emma", "julia")
NAMES = tuple(Name(text, feminine=text in _WOMEN) for text in _MEN + _WOMEN)


def _table(text: str) -> tuple[tuple[str, str], ...]:
    """Entries of *english french* divided by commas."""
    return tuple((en, fr) for en, fr in (entry.split() for entry in text.split(",")))


def _places(article: str, preposition: str, table: str) -> tuple[Place, ...]:
    return tuple(Place(en, fr, article, preposition) for en, fr in _table(table))


LANDS = (
    *_places(
        "la",
        "en",
        "africa afrique, asia asie, france france, china chine, spain espagne, italy italie",
    ),
    *_places("le", "au", "canada canada, japan japon, brazil brésil, portugal portugal"),
)
CITIES = _places(
    "",
    "à",
    "paris paris, london londres, rome rome, berlin berlin, lisbon lisbonne, geneva genève",
)

MONTHS = _table(
    "january janvier, february février, march mars, april avril, may mai, june juin, "
    "july juillet, august août, september septembre, october octobre, november novembre, "
    "december décembre"
)

_ALIKE = frozenset({"médecin"})
PROFESSIONS = tuple(
    Profession(en, fr, fr if fr in _ALIKE else french.feminine(fr))
    for en, fr in _table(
        "student étudiant, lawyer avocat, musician musicien, singer chanteur, baker boulanger, "
        "journalist journaliste, pilot pilote, doctor médecin"
    )
)

IN = Preposition("in", ("dans",))
NEAR = Preposition("near", ("près", "de"))
BEHIND = Preposition("behind", ("derrière",))
WITH = Preposition("with", ("avec",))
TO = Preposition("to", ("à",))
OF = Preposition("of", ("de",))
