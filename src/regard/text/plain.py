"""Texts in small letters and without signs, as the sentences of a built-in world are written.

Who types *I am a student.* means *i am a student*: a model that has seen no capital and no full
stop would read two unknown words. Words stay what they are, and where they stand is remembered.
"""

from __future__ import annotations

from typing import NamedTuple

from regard.text import words

_APOSTROPHES = str.maketrans("’", "'")


class PlainText(NamedTuple):
    """What is read of a text that was typed."""

    text: str
    places: tuple[int, ...]
    """Where each of its characters stands in what was typed."""

    def typed(self, begin: int, end: int) -> tuple[int, int]:
        """Where a part of it stands in what was typed."""
        if begin == end:
            at = self.places[begin] if begin < len(self.places) else 0
            return at, at
        return self.places[begin], self.places[end - 1] + 1


def is_sign(word: str) -> bool:
    """Whether a word has neither letter nor digit."""
    return not any(map(str.isalnum, word))


def plain(typed: str) -> PlainText:
    """A text in small letters, a space at most where signs stood; white space else stays.

    >>> plain("“I am a Student.”").text, plain("L’animal, trop fatigué").text
    ('i am a student', "l'animal trop fatigué")
    >>> plain("a.b").text, plain("...").text
    ('a b', '')
    """
    kept: list[tuple[str, int]] = []  # characters, each with its place
    end, dropped = 0, None
    for begin, after in words.spans(typed):
        word = typed[begin:after]
        if is_sign(word):  # the white space before it goes with it
            dropped, end = begin, after
            continue
        if dropped is not None and end == begin and kept:
            kept.append((" ", dropped))
        if dropped is None or kept:
            kept += ((typed[at], at) for at in range(end, begin))
        if after == len(typed):  # no word follows that an elided one could stand before
            word = word.rstrip("'’")
        for at, letter in enumerate(word, start=begin):
            kept += ((small, at) for small in letter.lower().translate(_APOSTROPHES))
        end, dropped = after, None
    kept += ((typed[at], at) for at in range(end, len(typed)))
    return PlainText("".join(letter for letter, _ in kept), tuple(at for _, at in kept))
