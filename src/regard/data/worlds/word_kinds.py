"""Which kind of word each word of the built-in sentences is: a noun, a verb, a pronoun, …

A word may be of several kinds: *porte* is a door and carries, *des* is an article, or *de* and one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import TypeVar

from regard.data.worlds import lexicon
from regard.data.worlds.inflection import english_plural

E = TypeVar("E", lexicon.VerbForms, lexicon.Determiner)
WordKinds = Mapping[str, frozenset[str]]
"""A word as it is written -> its kinds."""

_GRAMMAR = {
    "en": {
        "pronoun": "i we it they he she",
        "verb": "am is are was were do does did",
        "determiner": "an",
        "preposition": "in near behind with to of",
        "conjunction": "and because who that",
        "adverb": "not too very now yesterday",
    },
    "fr": {
        "pronoun": "je j' nous il elle ils elles",
        "verb": "suis est sommes sont étais était étions étaient ai a avons ont",
        "determiner": "l' des de d'",
        "preposition": "dans près de d' derrière avec à en au aux du des",
        "conjunction": "et parce que qu' qui",
        "adverb": "ne n' pas trop très maintenant hier",
    },
}
"""Words that the grammar has besides those of the lexicon."""


@cache
def word_kinds(language: str) -> WordKinds:
    """Of English (``en``) or French (``fr``)."""
    found: dict[str, set[str]] = {}
    lexical = {"en": _english, "fr": _french}[language]()
    for kind, words in [*_GRAMMAR[language].items(), *lexical]:
        for word in words.split():
            found.setdefault(word, set()).add(kind)
    return {word: frozenset(kinds) for word, kinds in found.items()}


def _english() -> Iterator[tuple[str, str]]:
    """Kinds and the forms of one entry, with spaces between them."""
    for noun in lexicon.NOUNS:
        yield "noun", f"{noun.en} {noun.en_plural}"
    for one in lexicon.PROFESSIONS:
        yield "noun", f"{one.en} {english_plural(one.en)}"
    for adjective in (*lexicon.DECISIVE, *lexicon.NEUTRAL):
        yield "adjective", adjective.en
    for verb in _all(lexicon.VerbForms):
        yield "verb", f"{verb.en} {verb.en_third} {verb.en_past or ''}"
    for determiner in _all(lexicon.Determiner):
        yield "determiner", f"{determiner.en} {determiner.en_plural}"
    for name in lexicon.NAMES:
        yield "name", name.text
    for place in _PLACES:
        yield "name", place.en


def _french() -> Iterator[tuple[str, str]]:
    for noun in lexicon.NOUNS:
        yield "noun", f"{noun.fr} {noun.fr_plural}"
    for one in lexicon.PROFESSIONS:
        yield "noun", _agreeing(one)
    for adjective in (*lexicon.DECISIVE, *lexicon.NEUTRAL):
        yield "adjective", f"{_agreeing(adjective)} {adjective.before_vowel or ''}"
    for verb in _all(lexicon.VerbForms):
        participles = (verb.participle + ending for ending in ("", "e", "s", "es"))
        yield "verb", " ".join((*verb.fr.values(), *participles))
    for article in _all(lexicon.Determiner):
        masculine = f"{article.masculine} {article.masculine_vowel}"
        feminine = f"{article.feminine} {article.feminine_vowel}"
        yield "determiner", f"{masculine} {feminine} {article.plural}"
    for name in lexicon.NAMES:
        yield "name", name.text
    for place in _PLACES:
        yield "name", place.fr


def _agreeing(one: lexicon.Adjective) -> str:
    both = (False, True)
    return " ".join(one.french(feminine=f, plural=p) for f in both for p in both)


_PLACES = (*lexicon.LANDS, *lexicon.CITIES, *lexicon.MONTHS)


def _all(kind: type[E]) -> Iterator[E]:
    """Entries of the lexicon that have names of their own."""
    return (one for one in vars(lexicon).values() if isinstance(one, kind))
