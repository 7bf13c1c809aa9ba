"""Phrases that are written in both languages at once.

A word knows the nodes of the abstract phrase that it expresses. Words of the two languages that
express the same node translate each other: the gold alignment is nothing else. *did* and *a* of
*n'a pas traversé* express the auxiliary, *crossed* the auxiliary and the verb.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from regard.data.pairs import Links, Pair
from regard.data.sentences import french

Word = tuple[str, tuple[str, ...]]
"""A form and the names of the nodes it expresses, none for a word without a counterpart."""

Position = tuple[int, int]
"""Where something stands: its English word and its French word, from 0."""


def word(form: str, *nodes: str) -> Word:
    """A word and the nodes that it expresses."""
    return form, nodes


@dataclass(frozen=True, slots=True)
class Phrase:
    """A piece of a sentence in both languages; pieces follow each other in the same order."""

    en: tuple[str, ...]
    fr: tuple[str, ...]
    links: Links
    head: Position
    before_vowel: bool
    """Whether a French word before this phrase is elided."""


def phrase(en: Sequence[Word], fr: Sequence[Word], head: str) -> Phrase:
    """Align the words by their nodes and write the elisions; ``head`` names the main node."""
    forms = french.with_elisions([form for form, _ in fr])
    return Phrase(
        en=tuple(form for form, _ in en),
        fr=tuple(forms),
        links=tuple(
            (i, j)
            for i, (_, en_nodes) in enumerate(en)
            for j, (_, fr_nodes) in enumerate(fr)
            if any(node in fr_nodes for node in en_nodes)
        ),
        head=(_where(en, head), _where(fr, head)),
        before_vowel=french.begins_with_vowel(forms[0]),
    )


def simple(en: str, fr: str) -> Phrase:
    """A phrase of one thought: every word translates every other.

    >>> simple("because", "parce que").links
    ((0, 0), (0, 1))
    """
    return phrase([word(w, "it") for w in en.split()], [word(w, "it") for w in fr.split()], "it")


def _where(words: Sequence[Word], node: str) -> int:
    return next(i for i, (_, nodes) in enumerate(words) if node in nodes)


@cache
def _moved(links: Links, n_en: int, n_fr: int) -> Links:
    """Links of a phrase that is preceded by so many words; few differ, so all sentences share."""
    return tuple((i + n_en, j + n_fr) for i, j in links)


class Draft:
    """A sentence in the making: phrases are added from left to right."""

    __slots__ = ("antecedents", "en", "fr", "links")

    def __init__(self) -> None:
        self.en: list[str] = []
        self.fr: list[str] = []
        self.links: list[Position] = []
        self.antecedents: list[tuple[Position, Position]] = []
        """(pronoun, head of what it refers to)."""

    def add(self, phrase: Phrase) -> Position:
        """Append a phrase and say where its head has come to stand."""
        n_en, n_fr = len(self.en), len(self.fr)
        if phrase.before_vowel and n_fr:
            self.fr[-1] = french.elided(self.fr[-1], before_vowel=True)
        self.en += phrase.en
        self.fr += phrase.fr
        self.links += _moved(phrase.links, n_en, n_fr)
        return phrase.head[0] + n_en, phrase.head[1] + n_fr

    def refer(self, pronoun: Position, antecedent: Position) -> None:
        """Note what a pronoun, both already added, refers to."""
        self.antecedents.append((pronoun, antecedent))

    def pair(self, tags: frozenset[str] = frozenset()) -> Pair:
        """The finished example, English to French."""
        return Pair(
            source=" ".join(self.en),
            target=" ".join(self.fr).replace("' ", "'"),
            alignment=tuple(self.links),
            antecedents=tuple((p[0], a[0]) for p, a in self.antecedents),
            target_antecedents=tuple((p[1], a[1]) for p, a in self.antecedents),
            tags=tags,
        )
