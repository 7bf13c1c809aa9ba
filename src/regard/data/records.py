"""Records: what every data set is made of, before anything is a number."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

from regard.core.errors import DataError

Fit = Literal["crop", "squash", "pad", "keep"]
"""How a picture becomes square: cut out of its middle, scaled in each direction, or grey added.
With ``keep`` it does not: its sides stay in proportion, and the shorter one gets the size."""
Resample = Literal["bicubic", "bilinear"]
"""How new pixels are computed from old ones."""
Links = tuple[tuple[int, int], ...]
"""Pairs of word positions, from 0, in the words of ``regard.text.words.split``."""
Span = tuple[int, int]
"""Words that follow each other: the first, and the one behind the last."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A source and a target. What a data set does not know stays ``None``."""

    source: str
    target: str
    alignment: Links | None = None
    """(source word, target word): which words translate each other."""
    antecedents: Links | None = None
    """(pronoun, antecedent), both words of the source."""
    target_antecedents: Links | None = None
    """(pronoun, antecedent), both words of the target."""
    tags: frozenset[str] = frozenset()
    """Kinds of examples that a score may be reported for apart."""

    def reversed(self) -> Pair:
        """The same example in the other direction."""
        links = self.alignment
        turned = None if links is None else tuple(sorted((t, s) for s, t in links))
        antecedents = self.target_antecedents, self.antecedents
        return Pair(self.target, self.source, turned, *antecedents, self.tags)


@dataclass(frozen=True, slots=True)
class Fact:
    """What a summary states, and where its document says so."""

    statement: tuple[str, str, str]
    """Who, which relation, what."""
    stated: tuple[int, ...]
    """The words of the summary that state it."""
    support: tuple[Span, ...]
    """The words of each sentence of the document that it takes: two, where it is two hops away."""

    @property
    def positions(self) -> tuple[int, ...]:
        """All words of the supporting sentences."""
        return tuple(word for begin, end in self.support for word in range(begin, end))


@dataclass(frozen=True, slots=True)
class Document(Pair):
    """A document (``source``) and a summary of it (``target``)."""

    references: tuple[str, ...] = ()
    """Every summary that is right, where there are several; the first is learned."""
    facts: tuple[Fact, ...] = ()
    """What the summary states, where a data set knows it."""


@dataclass(frozen=True, slots=True)
class Labelled:
    """A text, perhaps with another, a label or a score; what is not known stays ``None``."""

    text: str
    other: str | None = None
    label: str | None = None
    """As it is written."""
    score: float | None = None
    """How alike the two texts are."""
    where: str = field(default="", compare=False)
    """``file:line``, for messages."""

    @property
    def source(self) -> str:
        """A text that must not be both learned from and scored."""
        return self.text

    @property
    def target(self) -> str:
        """Another such text."""
        return self.text if self.other is None else self.other


@dataclass(frozen=True, slots=True)
class Question(Labelled):
    """A question (``text``) about a text (``other``); ``label`` is the answer that is learned."""

    answers: tuple[str, ...] = ()
    """Every answer that is right; the first is learned."""
    start: int = 0
    """Where that one begins in the context, in characters."""

    @classmethod
    def of(
        cls, question: str, context: str, answers: tuple[str, ...], start: int, where: str = ""
    ) -> Question:
        """A question by the names that its parts have here."""
        return cls(question, context, answers[0], None, where, answers, start)

    @property
    def context(self) -> str:
        """The text that the answer stands in."""
        return self.other or ""

    @property
    def end(self) -> int:
        """Where the answer ends in the context, in characters."""
        return self.start + len(self.answers[0])

    @property
    def source(self) -> str:
        """A context is either learned from or scored: all its questions stay together."""
        return self.context

    @property
    def target(self) -> str:
        """The context, too."""
        return self.context


R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Corpus(Generic[R]):
    """Records that were read from files, and what was passed over."""

    examples: tuple[R, ...]
    n_empty: int = 0
    """Lines that are empty in some part."""
    n_headers: int = 0
    """Lines that name the columns."""
    n_unanswered: int = 0
    """Questions that a file says have no answer."""
    likely_header: str | None = field(default=None, compare=False)
    """The label of the first line, where it looks like the name of the column."""

    def notes(self, split: str) -> list[str]:
        """What a user should know about a split."""
        found = {
            "lines skipped, being empty in some part": self.n_empty,
            "header line passed over": self.n_headers,
            "questions passed over, having no answer": self.n_unanswered,
        }
        told = [f"{split}: {n} {what}" for what, n in found.items() if n]
        if self.likely_header is not None:
            told.append(
                f"{split}: {self.likely_header!r} is the label of the first line alone; if that "
                "line names the columns, take it out"
            )
        return told


def numbered(examples: Iterable[Any], labels: Mapping[str, int]) -> list[int]:
    """The number of the label of each example, be it of a text or of a picture."""
    numbers = []
    for one in examples:
        assert one.label is not None, "these examples were read without labels"
        if one.label not in labels:
            at = f"{one.where}: " if one.where else ""
            raise DataError(
                f"{at}label {one.label!r} was not seen in training, which knows "
                f"{', '.join(labels)}; correct it, or train with examples of it"
            )
        numbers.append(labels[one.label])
    return numbers
