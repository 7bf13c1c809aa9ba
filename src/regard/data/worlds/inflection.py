"""English and French inflection and spelling, as far as the grammar of the worlds needs them."""

from __future__ import annotations

from collections.abc import Sequence

_VOWELS = frozenset("aeiou")
_HISSING = ("s", "x", "z", "ch", "sh")


def english_plural(noun: str) -> str:
    """Regular plural of a noun; the same ending makes a verb's third person.

    >>> [english_plural(noun) for noun in ("dog", "box", "library", "donkey")]
    ['dogs', 'boxes', 'libraries', 'donkeys']
    """
    if noun.endswith(_HISSING) or noun in ("go", "tomato"):
        return noun + "es"
    if _ends_in_consonant_and_y(noun):
        return noun[:-1] + "ies"
    return noun + "s"


def third_person(verb: str) -> str:
    """Present tense after *he*, *she* or *it*.

    >>> third_person("cross"), third_person("carry"), third_person("see")
    ('crosses', 'carries', 'sees')
    """
    return english_plural(verb)


def english_past(verb: str) -> str:
    """Regular past tense.

    >>> english_past("cross"), english_past("move"), english_past("carry")
    ('crossed', 'moved', 'carried')
    """
    if verb.endswith("e"):
        return verb + "d"
    if _ends_in_consonant_and_y(verb):
        return verb[:-1] + "ied"
    return verb + "ed"


def english_article(next_word: str) -> str:
    """*a* or *an*; no word of the lexicon has a silent h or begins like *unit*.

    >>> english_article("dog"), english_article("old")
    ('a', 'an')
    """
    return "an" if next_word[0] in _VOWELS else "a"


def _ends_in_consonant_and_y(word: str) -> bool:
    return word.endswith("y") and word[-2] not in _VOWELS


_FRENCH_VOWELS = frozenset("aeiouyàâäéèêëîïôöùûüœæ")

ASPIRATED = frozenset({"hérisson", "hérissons", "hibou", "hiboux", "hamster", "hamsters"})
"""Words whose h forbids elision (*le hérisson*); before any other h it is made (*l'homme*)."""

_ELIDED = {"le": "l'", "la": "l'", "de": "d'", "ne": "n'", "que": "qu'", "je": "j'"}
_CONTRACTED = {("à", "le"): "au", ("à", "les"): "aux", ("de", "le"): "du", ("de", "les"): "des"}
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
    return word[0] in _FRENCH_VOWELS


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


def french_plural(word: str) -> str:
    """Regular plural of a noun, an adjective or a participle.

    >>> [french_plural(word) for word in ("chien", "souris", "oiseau", "cheval", "hibou")]
    ['chiens', 'souris', 'oiseaux', 'chevaux', 'hiboux']
    """
    if word[-1] in "sxz":
        return word
    if (word.endswith(("au", "eu")) and word != "bleu") or word == "hibou":
        return word + "x"
    if word.endswith("al"):
        return word[:-2] + "aux"
    return word + "s"


def french_feminine(masculine: str) -> str:
    """Regular feminine of an adjective, a participle or a profession.

    >>> [french_feminine(word) for word in ("fatigué", "curieux", "fier", "timide")]
    ['fatiguée', 'curieuse', 'fière', 'timide']
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
    return french_plural(form) if is_plural else form
