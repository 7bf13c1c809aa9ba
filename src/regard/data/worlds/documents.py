"""The world ``documents``: long texts with facts among filler, and summaries that need them.

A document begins with a title, *about mira and tavo.* Facts about these subjects and about other
people stand anywhere in it, each relation said once or more; of several sentences the last holds.
The summary states every relation of the subjects. *mira lives in lomwick in velmark* takes two
sentences of the document, one about mira and one about lomwick: the second is a two-hop fact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from itertools import pairwise

from typing_extensions import override

from regard.core.errors import ConfigError
from regard.data.records import Document, Fact, Span
from regard.data.worlds.document_language import (
    PEOPLE,
    PLACES,
    RELATIONS,
    SECOND,
    Relation,
    filler_sentence,
    summary_words,
)
from regard.data.worlds.stable_random import StableRandom
from regard.text import words

LENGTHS = (500, 4000, 11_000)
"""Words of documents; those shorter than what is learned are test sets of their own."""
SHORTEST = 120
"""Words in which one person's facts have room."""
WORDS_EACH = 120
"""One person is told of in so many words of a document."""
N_SUBJECTS = 2
"""People that a summary is about; one where there is no room for two."""
MOST_WORDS = 5_000_000
"""Of the training documents together, where their number is not given; at most 10,000 of them."""
_CORRECTED = 0.25  # how often a sentence is followed by another that corrects it
_N_FILLER = 4000


@dataclass(frozen=True, slots=True)
class _Said:
    """A sentence: when it is said, which fact it is of, its text and its number of words."""

    when: float
    about: tuple[str, str]
    text: str
    n_words: int


@dataclass(frozen=True, slots=True)
class _Plan:
    """What is told in a document, and what is true at its end."""

    said: list[_Said]
    truth: dict[tuple[str, str], str]
    """(who, relation) → what; a town and a company have the relation that leads to them."""


def build_documents(
    *,
    seed: int = 0,
    length: int = LENGTHS[0],
    n_train: int | None = None,
    n_test: int | None = None,
) -> Mapping[str, Sequence[Document]]:
    """The splits ``train``, ``valid`` and ``test``, of documents of ``length`` words.

    Those of ``train`` have up to so many, short ones and long ones: who is meant among few people
    is learned before who is meant among many. ``length_500`` and ``length_4000`` are test sets of
    shorter documents. Splits share no document, and nobody is told of alike in two of them.
    Training documents are drawn when they are asked for: test sets do not depend on how many there
    are.
    """
    if length < SHORTEST:
        raise ConfigError(f"data.document_length={length} must be at least {SHORTEST} words")
    n = n_train or max(1, min(10_000, MOST_WORDS // length))
    shorter = {f"length_{words}": words for words in LENGTHS if words < length}
    lengths = {"valid": length, "test": length, **shorter}
    sizes = {name: n_test or _n_test(size) for name, size in lengths.items()}
    seen = _Seen()
    held_out = {
        name: _drawn(_stream(seed, name), (size, size), sizes[name], seen)
        for name, size in lengths.items()
    }
    draw = partial(_drawn, _stream(seed, "train"), (SHORTEST, length), n, seen)
    return DocumentSplits(draw, held_out)


def _n_test(length: int) -> int:
    return max(50, min(500, 250_000 // length))


def _stream(seed: int, split: str) -> StableRandom:
    """Choices of a split, which are no other split's."""
    return StableRandom(int.from_bytes(f"{seed} {split}".encode(), "big"))


class DocumentSplits(Mapping[str, Sequence[Document]]):
    """Documents by split; those of ``train`` are drawn when somebody asks for them."""

    def __init__(
        self, train: Callable[[], Sequence[Document]], others: Mapping[str, Sequence[Document]]
    ) -> None:
        self._draw, self._others = train, others

    @cached_property
    def _train(self) -> Sequence[Document]:
        return self._draw()

    @override
    def __getitem__(self, name: str) -> Sequence[Document]:
        return self._train if name == "train" else self._others[name]

    @override
    def __iter__(self) -> Iterator[str]:
        return iter(("train", *self._others))

    @override
    def __len__(self) -> int:
        return 1 + len(self._others)


class _Seen:
    """Everything that was told of a subject so far: who, and all that is true of them."""

    def __init__(self) -> None:
        self._told: set[tuple[str, ...]] = set()

    def enter(self, people: Mapping[str, Mapping[str, str]]) -> bool:
        """Whether it is new of all of them; if so it is remembered."""
        told = {(who, *values.values()) for who, values in people.items()}
        new = self._told.isdisjoint(told)
        if new:
            self._told |= told
        return new


def _drawn(
    draw: StableRandom, lengths: tuple[int, int], n: int, seen: _Seen
) -> tuple[Document, ...]:
    """``n`` documents, as many in each doubling of the length.

    A short one has as many facts to learn from, and fewer people to take for one another.
    """
    filler, (low, high) = _filler(), lengths
    found: list[Document] = []
    while len(found) < n:
        length = round(low * (high / low) ** draw.uniform(0, 1)) if low < high else high
        document = _document(draw, length, filler, seen)
        if document is not None:
            found.append(document)
    return tuple(found)


@cache
def _filler() -> tuple[tuple[str, int], ...]:
    """Sentences with their numbers of words, the same for every seed."""
    draw = StableRandom(0)
    texts = dict.fromkeys(f"{filler_sentence(draw)}." for _ in range(_N_FILLER))
    return tuple((text, len(text.split()) + 1) for text in texts)


def _document(
    draw: StableRandom, length: int, filler: Sequence[tuple[str, int]], seen: _Seen
) -> Document | None:
    """One document; None where its facts have no room, or were told before."""
    people = _some(draw, PEOPLE, max(1, length // WORDS_EACH))
    plan, subjects = _planned(draw, people), people[:N_SUBJECTS]
    truths = {who: _truth(plan, who) for who in subjects}
    title = f"about {' and '.join(subjects)}."
    room = length - len(words.split(title)) - sum(one.n_words for one in plan.said)
    if room < 0 or not seen.enter(truths):
        return None
    texts, places = _laid_out(draw, title, plan, filler, room)
    stated, facts = [], []
    for at, (word, statement) in enumerate(summary_words(truths)):
        stated.append(word)
        if statement is not None:
            support = tuple(places[about] for about in _path(plan, statement[:2]))
            facts.append(Fact(statement, (at,), support))
    return Document(" ".join(texts), words.join(stated), facts=tuple(facts))


def _some(draw: StableRandom, names: Sequence[str], n: int) -> list[str]:
    """``n`` different ones, in an order of chance."""
    found = dict.fromkeys([draw.one(names)])
    while len(found) < n:
        found[draw.one(names)] = None
    return [*found]


def _planned(draw: StableRandom, people: Sequence[str]) -> _Plan:
    """All relations of some people, and the second hops behind what was ever said of them."""
    plan = _Plan([], {})
    for who in people:
        for name, relation in RELATIONS.items():
            for what in _tell(draw, plan, (who, name), relation):
                if name in PLACES and (what, name) not in plan.truth:
                    _tell(draw, plan, (what, name), PLACES[name])
    return plan


def _tell(draw: StableRandom, plan: _Plan, about: tuple[str, str], relation: Relation) -> list[str]:
    """Say a relation, and perhaps correct it once or twice, later; all that was said of it."""
    n = 1 + draw.chance(_CORRECTED)
    n += n > 1 and draw.chance(_CORRECTED)
    values = _some(draw, relation.values, n)
    times = sorted(draw.uniform(0, 1) for _ in values)
    for i, (when, what) in enumerate(zip(times, values, strict=True)):
        template = draw.one(relation.corrected if i else relation.said)
        text = template.format(who=about[0], what=what).replace(" ,", ",")
        plan.said.append(_Said(when, about, f"{text}.", len(template.split()) + 1))
    plan.truth[about] = values[-1]
    return values


def _truth(plan: _Plan, who: str) -> dict[str, str]:
    """What is true of somebody, by relation, second hops included."""
    values = {name: plan.truth[who, name] for name in RELATIONS}
    seconds = {SECOND[name]: plan.truth[values[name], name] for name in PLACES}
    return {**values, **seconds}


def _path(plan: _Plan, about: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Whose relations lead to a fact: one, or two of which the second is about a place."""
    who, name = about
    for first, second in SECOND.items():
        if name == second:
            return (who, first), (plan.truth[who, first], first)
    return ((who, name),)


def _laid_out(
    draw: StableRandom,
    title: str,
    plan: _Plan,
    filler: Sequence[tuple[str, int]],
    room: int,
) -> tuple[list[str], dict[tuple[str, str], Span]]:
    """All sentences in their order, and the words of the last one about each fact."""
    between: list[tuple[str, int]] = []
    while room > 0:
        sentence = draw.one(filler)
        room -= sentence[1]
        if room >= 0:
            between.append(sentence)
    told = sorted(plan.said, key=lambda one: one.when)
    cuts = [0, *(int(one.when * (len(between) + 1)) for one in told), len(between)]
    texts, places, at = [title], dict[tuple[str, str], Span](), len(words.split(title))
    for (begin, end), one in zip(pairwise(cuts), [*told, None], strict=True):
        for text, n_words in between[begin:end]:
            texts.append(text)
            at += n_words
        if one is not None:
            places[one.about] = at, at + one.n_words
            texts.append(one.text)
            at += one.n_words
    return texts, places
