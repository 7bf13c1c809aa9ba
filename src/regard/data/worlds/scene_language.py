"""What can be said about a scene, in English and French, with the objects each word is about.

A caption says a ``Claim``: something is there, two things are, so many are, or one stands left of
another. A claim can be checked against a scene, and ``claim_of`` finds the claim of any caption
again: so what a model says is known to be true or false, however it puts it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Literal, NamedTuple

from regard.data.worlds.scene_pixels import COLOURS, SHAPES, Scene, SceneObject
from regard.data.worlds.stable_random import StableRandom
from regard.text.words import join, split

Language = Literal["en", "fr"]
Kind = Literal["exists", "both", "count", "relation"]
MOST_OBJECTS = 5
CLEAR = 0.12
"""One thing is said to be left of another if it is by this much, in sides of the picture."""


@dataclass(frozen=True, slots=True)
class Description:
    """Properties of objects; None where any will do."""

    shape: str | None = None
    colour: str | None = None
    big: bool | None = None
    striped: bool | None = None

    def fits(self, one: SceneObject) -> bool:
        """Whether an object is as described."""
        wanted = (self.shape, self.colour, self.big, self.striped)
        had = (one.shape, one.colour, one.big, one.striped)
        return all(w is None or w == h for w, h in zip(wanted, had, strict=True))

    def among(self, scene: Scene) -> tuple[int, ...]:
        """Which objects of a scene are as described."""
        return tuple(i for i, one in enumerate(scene.objects) if self.fits(one))


class Claim(NamedTuple):
    """What a caption says."""

    kind: Kind
    a: Description
    b: Description | None = None
    relation: str = ""
    n: int = 1

    def is_true(self, scene: Scene) -> bool:
        """Whether it holds for a scene; each thing that it names must be another one."""
        first = self.a.among(scene)
        if self.b is None:
            return len(first) == self.n if self.kind == "count" else bool(first)
        pairs = ((i, j) for i, j in product(first, self.b.among(scene)) if i != j)
        if self.kind == "both":
            return any(pairs)
        return any(
            RELATIONS[self.relation](scene.objects[i], scene.objects[j]) > 0 for i, j in pairs
        )


RELATIONS: Mapping[str, Callable[[SceneObject, SceneObject], float]] = {
    "left": lambda one, other: other.x - one.x,
    "right": lambda one, other: one.x - other.x,
    "above": lambda one, other: other.y - one.y,
    "below": lambda one, other: one.y - other.y,
}
"""By how much the relation holds: above 0 it does."""
ACROSS = ("left", "right")

# ------------------------------------------------------------------ words


class Word(NamedTuple):
    """A word of a caption or a question, and the objects it is about."""

    text: str
    about: tuple[int, ...] = ()


class Noun(NamedTuple):
    """One and several of a shape, and whether it is feminine."""

    one: str
    many: str
    feminine: bool = False


THING = "thing"
NOUNS: Mapping[Language, Mapping[str, Noun]] = {
    "en": {
        **{name: Noun(name, f"{name}s") for name in (*SHAPES, THING)},
        "cross": Noun("cross", "crosses"),
    },
    "fr": {
        "circle": Noun("cercle", "cercles"),
        "square": Noun("carré", "carrés"),
        "triangle": Noun("triangle", "triangles"),
        "star": Noun("étoile", "étoiles", feminine=True),
        "cross": Noun("croix", "croix", feminine=True),
        "ring": Noun("anneau", "anneaux"),
        "heart": Noun("cœur", "cœurs"),
        "moon": Noun("lune", "lunes", feminine=True),
        THING: Noun("forme", "formes", feminine=True),
    },
}
SMALL, BIG, STRIPED = "small", "big", "striped"
FRENCH_ADJECTIVES = {
    "red": ("rouge", "rouge", "s"),
    "green": ("vert", "verte", "s"),
    "blue": ("bleu", "bleue", "s"),
    "yellow": ("jaune", "jaune", "s"),
    "purple": ("violet", "violette", "s"),
    "turquoise": ("turquoise", "turquoise", ""),
    "white": ("blanc", "blanche", "s"),
    "black": ("noir", "noire", "s"),
    SMALL: ("petit", "petite", "s"),
    BIG: ("grand", "grande", "s"),
    STRIPED: ("rayé", "rayée", "s"),
}
"""Masculine, feminine, and what is added for several."""
NUMBERS: Mapping[Language, Sequence[str]] = {
    "en": ("no", "one", "two", "three", "four", "five"),
    "fr": ("aucun", "un", "deux", "trois", "quatre", "cinq"),
}
RELATION_WORDS: Mapping[Language, Mapping[str, Sequence[str]]] = {
    "en": {
        "left": ("left of", "to the left of"),
        "right": ("right of", "to the right of"),
        "above": ("above", "over"),
        "below": ("below", "under"),
    },
    "fr": {
        "left": ("à gauche de",),
        "right": ("à droite de",),
        "above": ("au-dessus de",),
        "below": ("au-dessous de", "sous"),
    },
}
TEMPLATES: Mapping[Language, Mapping[Kind, Sequence[str]]] = {
    "en": {
        "exists": ("{a}", "there is {a}", "the picture shows {a}", "{a} can be seen"),
        "both": ("{a} and {b}", "there is {a} and {b}", "the picture shows {a} and {b}"),
        "count": ("{n}", "there are {n}", "the picture shows {n}"),
        "relation": ("{a} is {r} {b}", "there is {a} {r} {b}", "{a} {r} {b}"),
    },
    "fr": {
        "exists": ("{a}", "il y a {a}", "l' image montre {a}", "on voit {a}"),
        "both": ("{a} et {b}", "il y a {a} et {b}", "l' image montre {a} et {b}"),
        "count": ("{n}", "il y a {n}", "l' image montre {n}"),
        "relation": ("{a} est {r} {b}", "il y a {a} {r} {b}", "{a} {r} {b}"),
    },
}
"""{a} and {b} are things, {n} so many of them, {r} the words of a relation."""


def _properties(said: Description) -> tuple[str | None, str | None, str | None]:
    size = None if said.big is None else BIG if said.big else SMALL
    return size, STRIPED if said.striped else None, said.colour


def english_noun(said: Description, n: int) -> list[str]:
    """*small striped red circle*."""
    noun = NOUNS["en"][said.shape or THING]
    return [*filter(None, _properties(said)), noun.one if n == 1 else noun.many]


def _french(said: Description, n: int) -> list[str]:
    """*petit cercle rouge rayé*."""
    noun = NOUNS["fr"][said.shape or THING]

    def agreeing(name: str | None) -> list[str]:
        if name is None:
            return []
        masculine, feminine, plural = FRENCH_ADJECTIVES[name]
        return [(feminine if noun.feminine else masculine) + (plural if n > 1 else "")]

    size, striped, colour = map(agreeing, _properties(said))
    return [*size, noun.one if n == 1 else noun.many, *colour, *striped]


def noun_phrase(said: Description, language: Language, article: str, n: int = 1) -> list[str]:
    """A noun phrase with ``a``, ``the`` or, where there are several, their number before it."""
    if language == "en":
        before = NUMBERS["en"][n] if n > 1 else article
        return [before, *english_noun(said, n)]
    feminine = NOUNS["fr"][said.shape or THING].feminine
    articles = {"a": ("un", "une"), "the": ("le", "la")}
    before = NUMBERS["fr"][n] if n > 1 else articles[article][feminine]
    return [before, *_french(said, n)]


def _contracted(words: Iterable[Word]) -> list[Word]:
    """French words as they are written: *du* for *de le*, *d'un*, *l'étoile*."""
    written: list[Word] = []
    for word in words:
        before = written[-1].text if written else ""
        if before == "de" and word.text == "le":
            written[-1] = Word("du", word.about)
            continue
        if before in ("de", "le", "la", "du") and word.text[0] in "aeiouéœ":
            if before == "du":
                written[-1:] = [Word("de"), Word("l'", written[-1].about)]
            else:
                written[-1] = Word(f"{before[0]}'", written[-1].about)
        written.append(word)
    return written


def filled(template: str, language: Language, slots: Mapping[str, Sequence[Word]]) -> list[Word]:
    """The words of a template, slots filled."""
    words: list[Word] = []
    for part in template.split(" "):
        words += slots[part[1:-1]] if part.startswith("{") else [Word(part)]
    return _contracted(words) if language == "fr" else words


# ------------------------------------------------------------------ captions


class Caption(NamedTuple):
    """A caption, its claim, and for each of its words the objects it is about."""

    text: str
    claim: Claim
    about: tuple[tuple[int, ...], ...]


def caption(claim: Claim, scene: Scene, language: Language, draw: StableRandom) -> Caption:
    """A claim about a scene in words, one of the ways to say it."""
    template = draw.one(TEMPLATES[language][claim.kind])
    relation = draw.one(RELATION_WORDS[language][claim.relation]) if claim.relation else ""
    words = _said(claim, template, relation, language, _about(claim, scene))
    return Caption(join([word.text for word in words]), claim, tuple(word.about for word in words))


def spoken(text: str, scene: Scene, language: Language) -> Caption | None:
    """A caption that somebody wrote about a scene, or None where it is none of this grammar.

    Where it is false, its words may be about nothing.
    """
    claim = claim_of(text, language)
    if claim is None:
        return None
    relations = RELATION_WORDS[language][claim.relation] if claim.relation else ("",)
    about, written = _about(claim, scene), split(text)
    for template, relation in product(TEMPLATES[language][claim.kind], relations):
        words = _said(claim, template, relation, language, about)
        if [word.text for word in words] == written:
            return Caption(text, claim, tuple(word.about for word in words))
    return None


@lru_cache
def looked_for(language: Language) -> frozenset[str]:
    """The words for colours and shapes, one and several: those that are seen in one place."""
    nouns = [noun for name, noun in NOUNS[language].items() if name != THING]
    found = {form for noun in nouns for form in (noun.one, noun.many)}
    if language == "en":
        return frozenset({*found, *COLOURS})
    forms = [FRENCH_ADJECTIVES[colour] for colour in COLOURS]
    return frozenset(
        {*found, *(form + end for *both, s in forms for form in both for end in ("", s))}
    )


def _about(claim: Claim, scene: Scene) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The objects that the two descriptions of a true claim are about."""
    first = claim.a.among(scene)
    if claim.b is None:
        return first, ()
    pairs = [(i, j) for i, j in product(first, claim.b.among(scene)) if i != j]
    if claim.relation:
        holds = RELATIONS[claim.relation]
        pairs = [(i, j) for i, j in pairs if holds(scene.objects[i], scene.objects[j]) > 0]
    return tuple(sorted({i for i, _ in pairs})), tuple(sorted({j for _, j in pairs}))


def _said(
    claim: Claim,
    template: str,
    relation: str,
    language: Language,
    about: tuple[tuple[int, ...], tuple[int, ...]] = ((), ()),
) -> list[Word]:
    slots = {
        "a": [Word(text, about[0]) for text in noun_phrase(claim.a, language, "a")],
        "n": [Word(text, about[0]) for text in noun_phrase(claim.a, language, "a", claim.n)],
        "r": [Word(text) for text in relation.split(" ")],
    }
    if claim.b is not None:
        slots["b"] = [Word(text, about[1]) for text in noun_phrase(claim.b, language, "a")]
    return filled(template, language, slots)


def claim_of(text: str, language: Language) -> Claim | None:
    """The claim that a caption says, or None where it is no caption of this grammar."""
    words = " ".join(split(text))
    for kind, relation, pattern in _patterns(language):
        found = pattern.fullmatch(words)
        if found is None:
            continue
        known = _noun_phrases(language)
        parts = [known.get(part) for part in found.groups()]
        numbers = [part[0] for part in parts if part is not None]
        said = [part[1] for part in parts if part is not None]
        if len(said) == len(parts) and (numbers[0] > 1) == (kind == "count"):
            return Claim(kind, said[0], said[1] if said[1:] else None, relation, numbers[0])
    return None


@lru_cache
def _patterns(language: Language) -> Sequence[tuple[Kind, str, re.Pattern[str]]]:
    """Every way to say something, as patterns of words divided by spaces; the longest first."""
    found: list[tuple[Kind, str, str]] = []
    for kind, templates in TEMPLATES[language].items():
        words = RELATION_WORDS[language] if kind == "relation" else {"": ("",)}
        for template, (relation, ways) in product(templates, words.items()):
            found += [(kind, relation, template.replace("{r}", way)) for way in ways]
    found.sort(key=lambda one: -len(one[2]))
    return [(kind, relation, _pattern(said)) for kind, relation, said in found]


def _pattern(said: str) -> re.Pattern[str]:
    """A template's words with a group for each slot; *de* may be elided before one."""
    escaped = re.escape(said).replace(r"de\ \{", r"d(?:e|')\ \{")
    return re.compile(re.sub(r"\\{\w\\}", "(.+)", escaped))


@lru_cache
def _noun_phrases(language: Language) -> Mapping[str, tuple[int, Description]]:
    """Every noun phrase of the grammar: how many, and of what."""
    shapes, colours = (*SHAPES, None), (*COLOURS, None)
    found = {}
    for shape, colour, big, striped, n in product(
        shapes, colours, (True, False, None), (True, None), range(1, MOST_OBJECTS + 1)
    ):
        said = Description(shape, colour, big, striped)
        found[" ".join(noun_phrase(said, language, "a", n))] = (n, said)
    return found


def claims(scene: Scene, draw: StableRandom) -> Iterator[Claim]:
    """True claims about a scene, one after the other, by chance."""
    objects = scene.objects
    while True:
        one = draw.one(objects)
        kind = draw.one((Description(one.shape), Description(colour=one.colour), Description()))
        if len(kind.among(scene)) > 1 and draw.chance(0.3):
            yield Claim("count", kind, n=len(kind.among(scene)))
            continue
        a = described(one, draw)
        others = [other for other in objects if other is not one]
        if not others or draw.chance(0.15):
            yield Claim("exists", a)
            continue
        other = draw.one(others)
        b = described(other, draw)
        relation = clear_relation(one, other)
        if relation is None or draw.chance(0.25):
            yield Claim("both", a, b)
        else:
            yield Claim("relation", a, b, relation)


def described(one: SceneObject, draw: StableRandom) -> Description:
    """Its shape and most often its colour, perhaps more of what it is."""
    return Description(
        one.shape,
        one.colour if draw.chance(0.9) else None,
        one.big if draw.chance(0.5) else None,
        True if one.striped and draw.chance(0.6) else None,
    )


def clear_relation(one: SceneObject, other: SceneObject) -> str | None:
    """Where one stands, seen from the other, if nobody would dispute it."""
    across, down = abs(one.x - other.x), abs(one.y - other.y)
    if max(across, down) < CLEAR:
        return None
    names = [name for name in RELATIONS if (name in ACROSS) == (across >= down)]
    return next(name for name in names if RELATIONS[name](one, other) > 0)


def captions(scene: Scene, seed: int, n: int = 5) -> dict[Language, tuple[Caption, ...]]:
    """``n`` captions in each language, of the same claims; no two of a language are alike."""
    draw = StableRandom(seed)
    found: dict[Language, dict[str, Caption]] = {"en": {}, "fr": {}}
    for claim in claims(scene, draw):
        said = {language: caption(claim, scene, language, draw) for language in found}
        if not any(one.text in found[language] for language, one in said.items()):
            for language, one in said.items():
                found[language][one.text] = one
        if len(found["en"]) == n:
            return {language: tuple(some.values()) for language, some in found.items()}
    raise AssertionError("there is always something more to say")
