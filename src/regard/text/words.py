"""Sentences ↔ words, the unit in which alignments and antecedents are given.

An elided word keeps its apostrophe and stands alone (*l'animal* is *l'* + *animal*), punctuation
stands alone, and ``join`` puts both back. Spaces around other signs are not remembered: *a/b* comes
back as *a / b*.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from itertools import chain, pairwise

_JOINERS = "\u200c\u200d"  # zero width; they stand inside Persian and Indic words


def _accents() -> str:
    """Marks that belong to the letter before them, and joiners: ``\\w`` lacks them in Python.

    Only the blocks that hold marks are searched, and none of the dead scripts beyond U+FFFF: this
    runs at import.
    """
    blocks = chain(range(0x300, 0x3100), range(0xA66F, 0xAC00), range(0xFB1E, 0xFE30))
    marks = (c for c in map(chr, blocks) if unicodedata.category(c).startswith("M"))
    return "".join(marks) + _JOINERS


_ACCENT = f"[{_accents()}]"
_LETTERS = rf"\w+(?:{_ACCENT}+\w*)*"

WORD_PATTERN = (
    rf"\d+(?:[.,]\d+)+\w*"  # 3.5, 1,000
    rf"|{_LETTERS}(?:-{_LETTERS})*(?:['’](?!\W))?"  # well-known, l' of l'animal, dogs of dogs'
    rf"|[^\w\s]{_ACCENT}*"  # any sign
)
"""One word; every character that is not white space belongs to one."""

_WORD = re.compile(WORD_PATTERN)
GLUED_LEFT, GLUED_RIGHT = frozenset(".,;:!?)]}…%"), frozenset("([{")
"""Words that stand close to the word before them, and to the word behind them."""
APOSTROPHES = "'’"
"""What an elided word ends with."""


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
    spaced = [word if _glued(left, word) else f" {word}" for left, word in pairwise(words)]
    return "".join([*words[:1], *spaced])


def _glued(left: str, right: str) -> bool:
    elided = len(left) > 1 and left[-1] in APOSTROPHES
    return elided or left in GLUED_RIGHT or right in GLUED_LEFT
