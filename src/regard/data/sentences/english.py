"""English inflection, as far as the grammar of this world needs it."""

from __future__ import annotations

_VOWELS = frozenset("aeiou")
_HISSING = ("s", "x", "z", "ch", "sh")


def plural(noun: str) -> str:
    """Regular plural of a noun; the same ending makes a verb's third person.

    >>> plural("dog"), plural("box"), plural("library"), plural("donkey")
    ('dogs', 'boxes', 'libraries', 'donkeys')
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
    return plural(verb)


def past(verb: str) -> str:
    """Regular past tense.

    >>> past("cross"), past("move"), past("carry")
    ('crossed', 'moved', 'carried')
    """
    if verb.endswith("e"):
        return verb + "d"
    if _ends_in_consonant_and_y(verb):
        return verb[:-1] + "ied"
    return verb + "ed"


def article(next_word: str) -> str:
    """*a* or *an*; no word of the lexicon has a silent h or begins like *unit*.

    >>> article("dog"), article("old")
    ('a', 'an')
    """
    return "an" if next_word[0] in _VOWELS else "a"


def _ends_in_consonant_and_y(word: str) -> bool:
    return word.endswith("y") and word[-2] not in _VOWELS
