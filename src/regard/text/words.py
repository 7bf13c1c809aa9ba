"""Sentences ↔ words, the unit in which alignments and antecedents are given.

An elided word keeps its apostrophe and stands alone (*l'animal* is *l'* + *animal*), punctuation
stands alone, and ``join`` puts both back.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

WORD_PATTERN = r"\d+(?:[.,]\d+)*|\w+(?:-\w+)*['’]?|[^\w\s]"
"""One word; the tokenizer of kind ``word`` splits by the same pattern."""

_WORD = re.compile(WORD_PATTERN)
_GLUED_LEFT = frozenset(".,;:!?)]}…%")
_GLUED_RIGHT = frozenset("([{")


def spans(sentence: str) -> list[tuple[int, int]]:
    """Where each word begins and ends, in characters."""
    return [match.span() for match in _WORD.finditer(sentence)]


def split(sentence: str) -> list[str]:
    """Sentence to words.

    >>> split("l'animal n'a pas dormi.")
    ["l'", 'animal', "n'", 'a', 'pas', 'dormi', '.']
    """
    return _WORD.findall(sentence)


def join(words: Sequence[str]) -> str:
    """Words to sentence.

    >>> join(["l'", "animal", "n'", "a", "pas", "dormi", "."])
    "l'animal n'a pas dormi."
    """
    parts: list[str] = []
    for i, word in enumerate(words):
        if i and not _glued(words[i - 1], word):
            parts.append(" ")
        parts.append(word)
    return "".join(parts)


def _glued(left: str, right: str) -> bool:
    elided = len(left) > 1 and left[-1] in "'’"
    return elided or left in _GLUED_RIGHT or right in _GLUED_LEFT
