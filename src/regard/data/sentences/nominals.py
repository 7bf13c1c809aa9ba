"""What can be a subject or an object; noun phrases, which hold whole clauses, are in ``trees``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from regard.data.sentences import groups
from regard.data.sentences.lexicon import Name, Person, Place
from regard.data.sentences.phrases import Draft, Position


class Nominal(Protocol):
    """What can be a subject or an object."""

    @property
    def person(self) -> Person:
        """What a verb agrees with."""

    @property
    def feminine(self) -> bool:
        """What adjectives and participles agree with."""

    @property
    def human(self) -> bool:
        """Whether English says *he* or *she* of it, and *who*."""

    def write(self, draft: Draft, *, negated: bool = False) -> Position:
        """Write it; ``negated``: as the direct object of a negated verb. Gives its head's place."""


@dataclass(frozen=True, slots=True)
class Named:
    """A person with a name."""

    name: Name
    person: Person = "il"
    human: bool = True

    @property
    def feminine(self) -> bool:
        """As the person is."""
        return self.name.feminine

    def write(self, draft: Draft, *, negated: bool = False) -> Position:
        """The bare name."""
        return draft.add(groups.name_group(self.name))


@dataclass(frozen=True, slots=True)
class Speaking:
    """*i*, *we*, *he* or *she* without an antecedent. Whoever says *i* is a man in this world."""

    en: str
    fr: str
    person: Person
    feminine: bool = False
    human: bool = True

    def write(self, draft: Draft, *, negated: bool = False) -> Position:
        """The bare pronoun."""
        return draft.add(groups.PRONOUNS[self.en, self.fr])


@dataclass(frozen=True, slots=True)
class Both:
    """*john and mary*: masculine in French as soon as one of them is."""

    first: Nominal
    second: Nominal
    person: Person = "ils"
    human: bool = True

    @property
    def feminine(self) -> bool:
        """Only when both are."""
        return self.first.feminine and self.second.feminine

    def write(self, draft: Draft, *, negated: bool = False) -> Position:
        """One, *and*, the other; the first stands for the head."""
        head = self.first.write(draft)
        draft.add(groups.AND)
        self.second.write(draft)
        return head


@dataclass(frozen=True, slots=True)
class OnMap:
    """A place with a name, as an object: *africa*."""

    place: Place
    person: Person = "il"
    feminine: bool = False
    human: bool = False

    def write(self, draft: Draft, *, negated: bool = False) -> Position:
        """The name, in French with its article."""
        return draft.add(groups.place_group(self.place, None))
