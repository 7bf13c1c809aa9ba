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

from regard.data.worlds import inflection
from regard.data.worlds.inflection import french_feminine, french_plural, word_pairs

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
    """An adjective, with the kinds of nouns that it makes sense with, or a profession."""

    en: str
    fr: str
    fr_feminine: str
    about: frozenset[Kind]
    before: bool = False
    """Whether it stands before the French noun."""
    before_vowel: str | None = None
    """Masculine singular before a vowel, where it differs: *bel*, *vieil*, *nouvel*."""
    profession: bool = False
    """Whether English says *a student*, *students*; French treats these words as adjectives."""

    def french(self, *, feminine: bool, plural: bool, next_word: str = "") -> str:
        """The form that agrees with a noun and suits the word after it."""
        if self.before_vowel and next_word and not (feminine or plural):
            return self.before_vowel if inflection.begins_with_vowel(next_word) else self.fr
        form = self.fr_feminine if feminine else self.fr
        return french_plural(form) if plural else form


@dataclass(frozen=True, eq=False, slots=True)
class VerbForms:
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
        vowel = inflection.begins_with_vowel(next_word)
        if feminine:
            return self.feminine_vowel if vowel else self.feminine
        return self.masculine_vowel if vowel else self.masculine


@dataclass(frozen=True, eq=False, slots=True)
class Name:
    """A person's first name, the same in both languages."""

    text: str
    feminine: bool


@dataclass(frozen=True, eq=False, slots=True)
class ProperNoun:
    """A continent, a country, a city or a month."""

    en: str
    fr: str
    article: str
    """*le* or *la* (*l'* follows from the spelling); empty for cities and months."""
    preposition: str
    """French for both *in* and *to*: *en france*, *au canada*, *à paris*, *en mai*."""


def _nouns(kind: Kind, masculine: str, feminine: str, *, owned: bool = True) -> tuple[Noun, ...]:
    return tuple(
        Noun(kind, en, inflection.english_plural(en), fr, french_plural(fr), gender, owned)
        for table, gender in ((masculine, False), (feminine, True))
        for en, fr in word_pairs(table)
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
THINGS = (ROADS, PLACES, FOODS, LOADS)
GOALS = tuple(noun for noun in PLACES if noun.fr != "maison")
"""Where one goes to; *aller à la maison* would be to go home."""
NOUNS = (*ANIMALS, *HUMANS, *ROADS, *PLACES, *FOODS, *LOADS, *PARTS)

THE = Determiner("the", "the", "le", "le", "la", "la", "les")
A = Determiner("a", "", "un", "un", "une", "une", "")
THIS = Determiner("this", "these", "ce", "cet", "cette", "cette", "ces")
MY = Determiner("my", "my", "mon", "mon", "ma", "mon", "mes")
OUR = Determiner("our", "our", "notre", "notre", "notre", "notre", "nos")
SOME = Determiner("", "some", "", "", "", "", "des")
TWO = Determiner("", "two", "", "", "", "", "deux")
MANY = Determiner("", "many", "", "", "", "", "beaucoup de")

# A determiner is drawn as often as it is written here.
OWNED = (MY, MY, OUR)
DEFINITE = (*[THE] * 5, THIS)
ONE = (*[THE] * 11, *[A] * 4, *[THIS] * 3)
SEVERAL = (*[THE] * 7, *[SOME] * 4, *[THIS] * 3, *[TWO] * 2, *[MANY] * 2)

_VOWEL = {"beau": "bel", "nouveau": "nouvel", "vieux": "vieil"}
_BEFORE = frozenset({"beau", "grand", "jeune", "long", "nouveau", "petit", "vieux"})


def adjectives(
    about: Iterable[Kind], table: str, *, profession: bool = False
) -> tuple[Adjective, ...]:
    """Adjectives from a table of *english french* entries divided by commas."""
    kinds = frozenset(about)
    return tuple(
        Adjective(en, fr, french_feminine(fr), kinds, fr in _BEFORE, _VOWEL.get(fr), profession)
        for en, fr in word_pairs(table)
    )


_THINGS: tuple[Kind, ...] = ("road", "place", "food", "load", "part")
ALL_KINDS: tuple[Kind, ...] = ("animal", "human", *_THINGS)

DECISIVE = (
    *adjectives(
        ("animal", "human"),
        "tired fatigué, hungry affamé, thirsty assoiffé, sick malade, scared effrayé, "
        "lazy paresseux, shy timide, sad triste, furious furieux, clumsy maladroit, "
        "stubborn têtu, curious curieux, jealous jaloux, proud fier",
    ),
    *adjectives(("road",), "wide large, long long, steep raide, slippery glissant, muddy boueux"),
    *adjectives(("road", "place"), "narrow étroit, crowded bondé, dark sombre"),
    *adjectives(("place",), "damp humide, dusty poussiéreux, empty vide"),
    *adjectives(
        ("food",), "salty salé, sour acide, ripe mûr, bitter amer, sweet sucré, rotten pourri"
    ),
    *adjectives(
        ("load",),
        "heavy lourd, bulky encombrant, fragile fragile, full plein, rusty rouillé, sticky collant",
    ),
)

NEUTRAL = (
    *adjectives(ALL_KINDS, "little petit, old vieux, strange étrange"),
    *adjectives(("animal", "human"), "young jeune"),
    *adjectives(("animal", *_THINGS), "big grand, beautiful beau"),
    *adjectives(("animal", "place", "food", "load", "part"), "red rouge, black noir"),
    *adjectives(("animal", "road", "place", "load", "part"), "white blanc"),
    *adjectives(("place", "food", "load", "part"), "green vert"),
    *adjectives(("place", "load", "part"), "new nouveau, blue bleu"),
    *adjectives(("human", "road", "place"), "famous célèbre"),
)

MISLEADING = frozenset({("boy", "old"), ("girl", "old")})
"""*une vieille fille* is a spinster, *un vieux garçon* a bachelor."""
ONLY_ATTRIBUTIVE = frozenset(a for a in NEUTRAL if a.fr == "nouveau")
"""*la maison est nouvelle* would say something else than *the house is new*."""


def _verb(
    en: str,
    forms: str,
    past: str | None = "",
    by_being: bool = False,
    preposition: str | None = None,
) -> VerbForms:
    """A verb from its forms with *je, il, nous, ils* and its participle; ``""`` = regular past."""
    je, il, nous, ils, participle = forms.split()
    fr: dict[Person, str] = {"je": je, "il": il, "nous": nous, "ils": ils}
    third, regular = inflection.english_plural(en), inflection.english_past(en)
    en_past = regular if past == "" else past
    return VerbForms(en, third, en_past, fr, participle, by_being, preposition)


def _regular(
    en: str, infinitive: str, past: str | None = "", *, by_being: bool = False
) -> VerbForms:
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

ON_THINGS: dict[Kind, tuple[VerbForms, ...]] = {
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
    (LEAVE, SEE, FIND, EAT, WATCH, LOVE, HELP, BUY, SLEEP, SING, WORK, GO, VISIT, ARRIVE, LIVE)
)
"""What *i* and *we* do: few, so that each form is seen often. FOLLOW's *je suis* is *i am* too."""
IN_RELATIVES = (SEE, FIND)
"""What is done in *the apple that i found*: few, for there the participle has four forms."""


_MEN = ("john", "paul", "peter", "david", "thomas", "martin")
_WOMEN = ("mary", "jane", "anna", "alice", "emma", "julia")
NAMES = tuple(Name(text, feminine=text in _WOMEN) for text in _MEN + _WOMEN)


def _proper_nouns(table: str, article: str, preposition: str) -> tuple[ProperNoun, ...]:
    return tuple(ProperNoun(en, fr, article, preposition) for en, fr in word_pairs(table))


_LA = "africa afrique, asia asie, france france, china chine, spain espagne, italy italie"
_LE = "canada canada, japan japon, brazil brésil, portugal portugal"
LANDS = (*_proper_nouns(_LA, "la", "en"), *_proper_nouns(_LE, "le", "au"))
CITIES = _proper_nouns(
    "paris paris, london londres, rome rome, berlin berlin, lisbon lisbonne, geneva genève", "", "à"
)
MONTHS = _proper_nouns(
    "january janvier, february février, march mars, april avril, may mai, june juin, "
    "july juillet, august août, september septembre, october octobre, november novembre, "
    "december décembre",
    "",
    "en",
)
PROFESSIONS = adjectives(
    ("human",),
    "student étudiant, lawyer avocat, musician musicien, singer chanteur, baker boulanger, "
    "journalist journaliste, pilot pilote, doctor médecin",
    profession=True,
)

Preposition = tuple[str, str]
"""English and French; French ones may end in *de* or *à*, which contract with an article."""
IN, NEAR, BEHIND = ("in", "dans"), ("near", "près de"), ("behind", "derrière")
WITH, TO, OF = ("with", "avec"), ("to", "à"), ("of", "de")
