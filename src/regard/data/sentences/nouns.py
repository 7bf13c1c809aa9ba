"""The nouns, half of each kind masculine and half feminine, and what determines them."""

from __future__ import annotations

from regard.data.sentences import english, french
from regard.data.sentences.lexicon import Determiner, Kind, Noun

_EN_PLURALS = {
    "goose": "geese",
    "man": "men",
    "mouse": "mice",
    "wolf": "wolves",
    "woman": "women",
}


def _nouns(kind: Kind, masculine: str, feminine: str, *, owned: bool = True) -> tuple[Noun, ...]:
    """Nouns from tables of *english french* entries divided by commas."""
    return tuple(
        Noun(
            kind=kind,
            en=en,
            en_plural=_EN_PLURALS.get(en, english.plural(en)),
            fr=fr,
            fr_plural=french.plural(fr),
            feminine=table is feminine,
            owned=owned,
        )
        for table in (masculine, feminine)
        for en, fr in (entry.split() for entry in table.split(","))
    )


ANIMALS = _nouns(
    "animal",
    "animal animal, dog chien, cat chat, horse cheval, bird oiseau, rabbit lapin, wolf loup, "
    "bear ours, elephant éléphant, hedgehog hérisson",
    "cow vache, goat chèvre, mouse souris, turtle tortue, giraffe girafe, hen poule, goose oie, "
    "frog grenouille, bee abeille, ant fourmi",
)
STRANGERS = _nouns(
    "human",
    "man homme, boy garçon, king roi",
    "woman femme, girl fille, queen reine",
    owned=False,
)
FAMILY = _nouns(
    "human",
    "father père, brother frère, uncle oncle",
    "mother mère, sister sœur, aunt tante",
)
HUMANS = STRANGERS + FAMILY
ROADS = _nouns(
    "road",
    "bridge pont, path chemin, tunnel tunnel, boulevard boulevard, field champ",
    "street rue, road route, avenue avenue, square place, forest forêt",
)
PLACES = _nouns(
    "place",
    "castle château, hotel hôtel, museum musée, garage garage, hospital hôpital",
    "house maison, church église, school école, barn grange, library bibliothèque",
)
FOODS = _nouns(
    "food",
    "cheese fromage, cake gâteau, egg œuf, lemon citron",
    "apple pomme, pear poire, carrot carotte, tomato tomate",
)
LOADS = _nouns(
    "load",
    "bag sac, basket panier, bench banc, barrel tonneau",
    "box boîte, suitcase valise, table table, ladder échelle",
)
PARTS = _nouns("part", "roof toit, wall mur", "door porte, window fenêtre")
"""What a place has: *the door of the house*."""

THE = Determiner("the", "the", "le", "le", "la", "la", "les")
A = Determiner("a", "", "un", "un", "une", "une", "")
THIS = Determiner("this", "these", "ce", "cet", "cette", "cette", "ces")
MY = Determiner("my", "my", "mon", "mon", "ma", "mon", "mes")
OUR = Determiner("our", "our", "notre", "notre", "notre", "notre", "nos")
SOME = Determiner("", "some", "", "", "", "", "des")
TWO = Determiner("", "two", "", "", "", "", "deux")
MANY = Determiner("", "many", "", "", "", "", "beaucoup de")
