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
    "animal animal, dog chien, cat chat, horse cheval, bird oiseau, rabbit lapin, fox renard, "
    "wolf loup, bear ours, elephant éléphant, hedgehog hérisson, donkey âne",
    "cow vache, goat chèvre, mouse souris, turtle tortue, giraffe girafe, hen poule, goose oie, "
    "frog grenouille, bee abeille, ant fourmi, spider araignée, panther panthère",
)
STRANGERS = _nouns(
    "human",
    "man homme, boy garçon, king roi, prince prince",
    "woman femme, girl fille, queen reine, princess princesse",
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
    "bridge pont, path chemin, tunnel tunnel, boulevard boulevard, trail sentier, field champ, "
    "desert désert",
    "street rue, road route, avenue avenue, alley ruelle, highway autoroute, square place, "
    "forest forêt",
)
PLACES = _nouns(
    "place",
    "castle château, hotel hôtel, museum musée, garage garage, hospital hôpital, palace palais",
    "house maison, church église, school école, barn grange, library bibliothèque, factory usine",
)
FOODS = _nouns(
    "food",
    "cheese fromage, cake gâteau, melon melon, lemon citron, egg œuf, onion oignon",
    "apple pomme, pear poire, carrot carotte, tomato tomate, banana banane, pie tarte",
)
LOADS = _nouns(
    "load",
    "bag sac, basket panier, bench banc, barrel tonneau, bucket seau, carpet tapis",
    "box boîte, cart charrette, suitcase valise, table table, chair chaise, ladder échelle",
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
