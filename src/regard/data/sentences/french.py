"""French inflection and spelling, as far as the grammar of this world needs them."""

from __future__ import annotations

from collections.abc import Sequence

_VOWELS = frozenset("aeiouyàâäéèêëîïôöùûüœæ")

ASPIRATED = frozenset({"hérisson", "hérissons", "hibou", "hiboux", "hamster", "hamsters"})
"""Words whose h forbids elision (*le hérisson*); before any other h it is made (*l'homme*)."""

_ELIDED = {"le": "l'", "la": "l'", "de": "d'", "ne": "n'", "que": "qu'", "je": "j'"}
_CONTRACTED = {
    ("à", "le"): "au",
    ("à", "les"): "aux",
    ("de", "le"): "du",
    ("de", "les"): "des",
}
_FEMININE_ENDINGS = (
    ("e", "e"),
    ("eux", "euse"),
    ("oux", "ouse"),
    ("eur", "euse"),
    ("er", "ère"),
    ("iet", "iète"),
    ("ien", "ienne"),
)


def begins_with_vowel(word: str) -> bool:
    """Whether the word is spoken with a vowel first, a mute h counting as none.

    >>> [begins_with_vowel(w) for w in ("animal", "chat", "homme", "hérisson", "œuf")]
    [True, False, True, False, True]
    """
    if word[0] == "h":
        return word not in ASPIRATED
    return word[0] in _VOWELS


def elided(word: str, *, before_vowel: bool) -> str:
    """The word as it is written before its neighbour.

    >>> elided("que", before_vowel=True), elided("que", before_vowel=False)
    ("qu'", 'que')
    """
    return _ELIDED.get(word, word) if before_vowel else word


def with_elisions(words: Sequence[str]) -> list[str]:
    """Every word as it is written before the next one.

    >>> with_elisions(["je", "ne", "ai", "pas", "de", "amis"])
    ['je', "n'", 'ai', 'pas', "d'", 'amis']
    """
    following = [*(begins_with_vowel(word) for word in words[1:]), False]
    return [elided(w, before_vowel=v) for w, v in zip(words, following, strict=True)]


def contracted(preposition: str, article: str) -> str | None:
    """What the two become together, or nothing when both stay.

    >>> contracted("de", "le"), contracted("à", "les"), contracted("de", "la")
    ('du', 'aux', None)
    """
    return _CONTRACTED.get((preposition, article))


def plural(word: str) -> str:
    """Regular plural of a noun, an adjective or a participle.

    >>> plural("chien"), plural("souris"), plural("oiseau"), plural("cheval"), plural("hibou")
    ('chiens', 'souris', 'oiseaux', 'chevaux', 'hiboux')
    """
    if word[-1] in "sxz":
        return word
    if (word.endswith(("au", "eu")) and word != "bleu") or word == "hibou":
        return word + "x"
    if word.endswith("al"):
        return word[:-2] + "aux"
    return word + "s"


def feminine(masculine: str) -> str:
    """Regular feminine of an adjective, a participle or a profession.

    >>> feminine("fatigué"), feminine("curieux"), feminine("fier"), feminine("timide")
    ('fatiguée', 'curieuse', 'fière', 'timide')
    """
    for ending, replacement in _FEMININE_ENDINGS:
        if masculine.endswith(ending):
            return masculine.removesuffix(ending) + replacement
    return masculine + "e"


def agreeing(masculine: str, *, feminine_form: str, is_feminine: bool, is_plural: bool) -> str:
    """One of the four forms of an adjective or participle.

    >>> agreeing("allé", feminine_form="allée", is_feminine=True, is_plural=True)
    'allées'
    """
    form = feminine_form if is_feminine else masculine
    return plural(form) if is_plural else form
