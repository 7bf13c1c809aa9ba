"""The words of the built-in worlds, English and French.

Entries compare by identity, so that what was written with them can be remembered. Within one part
of speech every English word has one French counterpart and back: nothing has to be guessed.

Of the adjectives, the *decisive* ones fit either what lives or what does not, never both: after
*because it was too* they alone tell which of two nouns *it* means. The *neutral* ones only adorn.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from regard.data.worlds.inflection import (
    agreeing,
    begins_with_vowel,
    english_past,
    english_plural,
    french_feminine,
    french_plural,
    third_person,
)

Person = Literal["je", "il", "nous", "ils"]
"""Whom a verb agrees with: *i*, one other, *we*, several others."""

Kind = Literal["animal", "human", "road", "place", "food", "load", "part"]
"""What sort of thing a noun names; it decides which verbs and adjectives make sense with it."""


@dataclass(frozen=True, eq=False, slots=True)
class Noun:
    """A common noun. No two numbers of it look alike in English."""

    kind: Kind
    en: str
    en_plural: str
    fr: str
    fr_plural: str
    feminine: bool
    owned: bool = True
    """Whether *my* may precede it: *ma femme* would be my wife, not my woman."""


@dataclass(frozen=True, eq=False, slots=True)
class Adjective:
    """An adjective, with the kinds of nouns that it makes sense with."""

    en: str
    fr: str
    fr_feminine: str
    about: frozenset[Kind]
    before: bool = False
    """Whether it stands before the French noun."""
    before_vowel: str | None = None
    """Masculine singular before a vowel, where it differs: *bel*, *vieil*, *nouvel*."""

    def french(self, *, feminine: bool, plural: bool, next_word: str = "") -> str:
        """The form that agrees with a noun and suits the word after it."""
        if self.before_vowel and next_word and not (feminine or plural):
            return self.before_vowel if begins_with_vowel(next_word) else self.fr
        return agreeing(
            self.fr, feminine_form=self.fr_feminine, is_feminine=feminine, is_plural=plural
        )


@dataclass(frozen=True, eq=False, slots=True)
class Verb:
    """A verb in the present and, unless it names a lasting state, in the past."""

    en: str
    en_third: str
    en_past: str | None
    """Nothing for states such as *love*, whose French past would be another tense."""
    fr: dict[Person, str]
    participle: str
    by_being: bool = False
    """Whether its past is made with *être*, so that the participle agrees with the subject."""
    preposition: str | None = None
    """A French preposition before what is the direct object in English: *entrer dans*."""


@dataclass(frozen=True, eq=False, slots=True)
class Determiner:
    """An article or its like. A number in which it does not exist has an empty form."""

    en: str
    en_plural: str
    masculine: str
    masculine_vowel: str
    feminine: str
    feminine_vowel: str
    plural: str
    """Several words where French needs them: *beaucoup de*."""

    def french(self, *, feminine: bool, plural: bool, next_word: str) -> str:
        """The form for a noun's gender and number, and for the word that follows."""
        if plural:
            return self.plural
        vowel = begins_with_vowel(next_word)
        if feminine:
            return self.feminine_vowel if vowel else self.feminine
        return self.masculine_vowel if vowel else self.masculine


@dataclass(frozen=True, eq=False, slots=True)
class Name:
    """A person's first name, the same in both languages."""

    text: str
    feminine: bool


@dataclass(frozen=True, eq=False, slots=True)
class Place:
    """A continent, a country or a city."""

    en: str
    fr: str
    article: str
    """*le* or *la* (*l'* follows from the spelling); empty for cities."""
    preposition: str
    """French for both *in* and *to*: *en france*, *au canada*, *à paris*."""


@dataclass(frozen=True, eq=False, slots=True)
class Profession:
    """What a person is; French gives it no article."""

    en: str
    fr: str
    fr_feminine: str


@dataclass(frozen=True, eq=False, slots=True)
class Preposition:
    """A preposition before a noun; French ones may end in *de* or *à* and then contract."""

    en: str
    fr: tuple[str, ...]


_EN_PLURALS = {"goose": "geese", "man": "men", "mouse": "mice", "wolf": "wolves", "woman": "women"}


def _nouns(kind: Kind, masculine: str, feminine: str, *, owned: bool = True) -> tuple[Noun, ...]:
    """Nouns from tables of *english french* entries divided by commas."""
    return tuple(
        Noun(
            kind=kind,
            en=en,
            en_plural=_EN_PLURALS.get(en, english_plural(en)),
            fr=fr,
            fr_plural=french_plural(fr),
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
    "human", "man homme, boy garçon, king roi", "woman femme, girl fille, queen reine", owned=False
)
FAMILY = _nouns(
    "human", "father père, brother frère, uncle oncle", "mother mère, sister sœur, aunt tante"
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
            fr_feminine=_FEMININES.get(fr, french_feminine(fr)),
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


def _verb(
    en: str,
    forms: str,
    past: str | None = "",
    *,
    by_being: bool = False,
    preposition: str | None = None,
) -> Verb:
    """A verb from its forms with *je, il, nous, ils* and its participle; ``""`` = regular past."""
    je, il, nous, ils, participle = forms.split()
    return Verb(
        en=en,
        en_third=third_person(en),
        en_past=english_past(en) if past == "" else past,
        fr={"je": je, "il": il, "nous": nous, "ils": ils},
        participle=participle,
        by_being=by_being,
        preposition=preposition,
    )


def _regular(en: str, infinitive: str, past: str | None = "", *, by_being: bool = False) -> Verb:
    """A verb in *-er* whose stem never changes."""
    stem = infinitive.removesuffix("er")
    return _verb(en, f"{stem}e {stem}e {stem}ons {stem}ent {stem}é", past, by_being=by_being)


CROSS = _regular("cross", "traverser")
FOLLOW = _verb("follow", "suis suit suivons suivent suivi")
LEAVE = _regular("leave", "quitter", "left")
ENTER = _verb("enter", "entre entre entrons entrent entré", by_being=True, preposition="dans")
FIND = _regular("find", "trouver", "found")
EAT = _verb("eat", "mange mange mangeons mangent mangé", "ate")
FINISH = _verb("finish", "finis finit finissons finissent fini")
CARRY = _regular("carry", "porter")
PUSH = _regular("push", "pousser")
PULL = _regular("pull", "tirer")
SEE = _verb("see", "vois voit voyons voient vu", "saw")
HEAR = _verb("hear", "entends entend entendons entendent entendu", "heard")
WATCH = _regular("watch", "regarder")
CHASE = _verb("chase", "poursuis poursuit poursuivons poursuivent poursuivi")
PROTECT = _verb("protect", "protège protège protégeons protègent protégé")
HELP = _regular("help", "aider")
LOVE = _regular("love", "aimer", None)
HATE = _regular("hate", "détester", None)
KNOW = _verb("know", "connais connaît connaissons connaissent connu", None)
BUY = _verb("buy", "achète achète achetons achètent acheté", "bought")
SELL = _verb("sell", "vends vend vendons vendent vendu", "sold")
VISIT = _regular("visit", "visiter")
SLEEP = _verb("sleep", "dors dort dormons dorment dormi", "slept")
SING = _regular("sing", "chanter", "sang")
DANCE = _regular("dance", "danser")
RUN = _verb("run", "cours court courons courent couru", "ran")
LAUGH = _verb("laugh", "ris rit rions rient ri")
WORK = _regular("work", "travailler")
FALL = _regular("fall", "tomber", "fell", by_being=True)
ARRIVE = _regular("arrive", "arriver", by_being=True)
GO = _verb("go", "vais va allons vont allé", "went", by_being=True)
RETURN = _regular("return", "retourner", by_being=True)
LIVE = _regular("live", "habiter", None)

ON_THINGS: dict[Kind, tuple[Verb, ...]] = {
    "road": (CROSS, FOLLOW, LEAVE, SEE),
    "place": (ENTER, LEAVE, FIND, SEE),
    "food": (EAT, FINISH, FIND, SEE),
    "load": (CARRY, PUSH, PULL, FIND),
}
"""What an animal or a person does to things of each kind."""
ON_ANIMATES = (SEE, HEAR, WATCH, FOLLOW, CHASE, PROTECT, FIND)
"""What animals and people do to each other."""
AMONG_PEOPLE = (LOVE, HATE, KNOW, HELP)
"""What only people do to others."""
WITH_GOODS = (BUY, SELL)
"""What people do with things that can be owned."""
ALONE = (SLEEP, RUN, FALL, ARRIVE)
"""What animals and people do by themselves."""
PEOPLE_ALONE = (SING, DANCE, LAUGH, WORK)
"""What only people do by themselves."""
IN_FIRST_PERSON = frozenset(
    {
        *(LEAVE, SEE, FIND, EAT, WATCH, LOVE, HELP, BUY),
        *(SLEEP, SING, WORK, GO, VISIT, ARRIVE, LIVE),
    }
)
"""What *i* and *we* do: few, so that each form is seen often.

Not FOLLOW: *je suis* is *i am* as well.
"""
IN_RELATIVES = (SEE, FIND)
"""What is done in *the apple that i found*: few, for there the participle has four forms."""


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
    "", "à", "paris paris, london londres, rome rome, berlin berlin, lisbon lisbonne, geneva genève"
)

MONTHS = _table(
    "january janvier, february février, march mars, april avril, may mai, june juin, "
    "july juillet, august août, september septembre, october octobre, november novembre, "
    "december décembre"
)

_ALIKE = frozenset({"médecin"})
PROFESSIONS = tuple(
    Profession(en, fr, fr if fr in _ALIKE else french_feminine(fr))
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
