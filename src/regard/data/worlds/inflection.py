"""English and French inflection and spelling, as far as the grammar of the worlds needs them."""

from __future__ import annotations

from collections.abc import Sequence

_VOWELS = frozenset("aeiou")
_HISSING = ("s", "x", "z", "ch", "sh")


def word_pairs(table: str) -> list[tuple[str, str]]:
    """Entries of two words each, divided by commas.

    >>> word_pairs("dog chien, cat chat")
    [('dog', 'chien'), ('cat', 'chat')]
    """
    return [(first, second) for first, second in map(str.split, table.split(","))]


_IRREGULAR_PLURALS = dict(word_pairs("goose geese, man men, mouse mice, wolf wolves, woman women"))


def english_plural(noun: str) -> str:
    """Plural of a noun; the regular ending makes a verb's third person too.

    >>> [english_plural(word) for word in ("dog", "box", "library", "donkey", "cross", "carry")]
    ['dogs', 'boxes', 'libraries', 'donkeys', 'crosses', 'carries']
    """
    if noun in _IRREGULAR_PLURALS:
        return _IRREGULAR_PLURALS[noun]
    if noun.endswith(_HISSING) or noun in ("go", "tomato"):
        return noun + "es"
    return noun[:-1] + "ies" if _ends_in_consonant_and_y(noun) else noun + "s"


def english_past(verb: str) -> str:
    """Regular past tense.

    >>> english_past("cross"), english_past("move"), english_past("carry")
    ('crossed', 'moved', 'carried')
    """
    if verb.endswith("e"):
        return verb + "d"
    return verb[:-1] + "ied" if _ends_in_consonant_and_y(verb) else verb + "ed"


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

ELIDED = {"le": "l'", "la": "l'", "de": "d'", "ne": "n'", "que": "qu'", "je": "j'"}
"""How words are written before a vowel."""
CONTRACTED = {("à", "le"): "au", ("à", "les"): "aux", ("de", "le"): "du", ("de", "les"): "des"}
"""What a preposition and an article become together."""
_FEMININE_ENDINGS = word_pairs("e e, eux euse, oux ouse, eur euse, er ère, iet iète, ien ienne")
_FEMININES = dict(
    word_pairs(
        "beau belle, blanc blanche, long longue, médecin médecin, nouveau nouvelle, vieux vieille"
    )
)


def begins_with_vowel(word: str) -> bool:
    """Whether the word is spoken with a vowel first, a mute h counting as none.

    >>> [begins_with_vowel(w) for w in ("animal", "chat", "homme", "hérisson", "œuf")]
    [True, False, True, False, True]
    """
    return word not in ASPIRATED if word[0] == "h" else word[0] in _FRENCH_VOWELS


def with_elisions(words: Sequence[str]) -> list[str]:
    """Every word as it is written before the next one.

    >>> with_elisions(["je", "ne", "ai", "pas", "de", "amis"])
    ['je', "n'", 'ai', 'pas', "d'", 'amis']
    """
    before_vowel = [*map(begins_with_vowel, words[1:]), False]
    return [ELIDED.get(w, w) if vowel else w for w, vowel in zip(words, before_vowel, strict=True)]


def french_plural(word: str) -> str:
    """Regular plural of a noun, an adjective or a participle.

    >>> [french_plural(word) for word in ("chien", "souris", "oiseau", "cheval", "hibou")]
    ['chiens', 'souris', 'oiseaux', 'chevaux', 'hiboux']
    """
    if word[-1] in "sxz":
        return word
    if (word.endswith(("au", "eu")) and word != "bleu") or word == "hibou":
        return word + "x"
    return word[:-2] + "aux" if word.endswith("al") else word + "s"


def french_feminine(masculine: str) -> str:
    """Feminine of an adjective, a participle or a profession.

    >>> [french_feminine(word) for word in ("fatigué", "curieux", "fier", "timide")]
    ['fatiguée', 'curieuse', 'fière', 'timide']
    """
    if masculine in _FEMININES:
        return _FEMININES[masculine]
    for ending, replacement in _FEMININE_ENDINGS:
        if masculine.endswith(ending):
            return masculine.removesuffix(ending) + replacement
    return masculine + "e"
