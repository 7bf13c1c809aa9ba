"""Abstract sentences: small trees that write themselves in both languages at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from regard.data.records import Pair
from regard.data.worlds import phrases
from regard.data.worlds.lexicon import (
    Adjective,
    Determiner,
    Name,
    Noun,
    Person,
    Place,
    Preposition,
    Profession,
    Verb,
)
from regard.data.worlds.phrases import Draft, Phrase, Position


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
        return draft.add(phrases.name_group(self.name))


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
        return draft.add(phrases.PRONOUNS[self.en, self.fr])


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
        draft.add(phrases.AND)
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
        return draft.add(phrases.place_group(self.place, None))


class Predicate(Protocol):
    """What is said of a subject."""

    def write(self, draft: Draft, subject: Nominal) -> Position | None:
        """Write it in agreement with its subject; gives the place of its object's head, if any."""


@dataclass(frozen=True, slots=True)
class NounPhrase:
    """*the little dog*, *the door of the house*, *the dog that sees the cat*."""

    noun: Noun
    determiner: Determiner
    plural: bool = False
    before: Adjective | None = None
    after: Adjective | None = None
    of: Phrase | None = None
    relative: Doing | DoneTo | None = None

    @property
    def person(self) -> Person:
        """Third."""
        return "ils" if self.plural else "il"

    @property
    def feminine(self) -> bool:
        """As the French noun is."""
        return self.noun.feminine

    @property
    def human(self) -> bool:
        """As the noun's kind says."""
        return self.noun.kind == "human"

    def group(self, *, negated: bool = False, preposition: Preposition | None = None) -> Phrase:
        """Determiner, adjectives and noun, perhaps after a preposition."""
        return phrases.noun_group(
            self.noun, self.determiner, self.plural, self.before, self.after, negated, preposition
        )

    def write(self, draft: Draft, *, negated: bool = False) -> Position:
        """The group, then what hangs on it."""
        head = draft.add(self.group(negated=negated))
        if self.of:
            draft.add(self.of)
        if self.relative:
            self.relative.write(draft, self)
        return head


@dataclass(frozen=True, slots=True)
class Action:
    """*did not cross the street*, *sleeps near the church*."""

    verb: Verb
    past: bool
    negated: bool = False
    object: Nominal | None = None
    adjuncts: tuple[Phrase, ...] = ()
    """Places and times; already written, for they agree with nothing."""

    def write(self, draft: Draft, subject: Nominal) -> Position | None:
        """Verb, object, adjuncts."""
        who, form = (subject.person, subject.feminine), (self.past, self.negated)
        draft.add(phrases.verb_group(self.verb, *who, *form, None))
        head = None
        if self.object:
            direct = self.verb.preposition is None
            head = self.object.write(draft, negated=self.negated and direct)
        for adjunct in self.adjuncts:
            draft.add(adjunct)
        return head


@dataclass(frozen=True, slots=True)
class State:
    """*was too tired*."""

    adjective: Adjective
    past: bool
    negated: bool = False
    degree: str | None = None

    def write(self, draft: Draft, subject: Nominal) -> Position | None:
        """*be*, perhaps a degree, the adjective."""
        who, form = (subject.person, subject.feminine), (self.past, self.negated)
        draft.add(phrases.state_group(self.adjective, self.degree, *who, *form))
        return None


@dataclass(frozen=True, slots=True)
class Trade:
    """*am a student*."""

    profession: Profession
    past: bool
    negated: bool = False

    def write(self, draft: Draft, subject: Nominal) -> Position | None:
        """*be* and the profession."""
        who, form = (subject.person, subject.feminine), (self.past, self.negated)
        draft.add(phrases.profession_group(self.profession, *who, *form))
        return None


@dataclass(frozen=True, slots=True)
class Doing:
    """A relative clause whose antecedent acts: *that sees the cat*."""

    action: Action

    def write(self, draft: Draft, antecedent: Nominal) -> None:
        """*who* or *that*, and what it does."""
        draft.add(phrases.WHO if antecedent.human else phrases.THAT_DOES)
        self.action.write(draft, antecedent)


@dataclass(frozen=True, slots=True)
class DoneTo:
    """A relative clause whose antecedent is acted on: *that the cat sees*."""

    subject: Nominal
    verb: Verb
    past: bool

    def write(self, draft: Draft, antecedent: Nominal) -> None:
        """*that*, who does it, the verb, its participle agreeing with the antecedent."""
        draft.add(phrases.THAT_IS_DONE_TO)
        self.subject.write(draft)
        before = (antecedent.feminine, antecedent.person == "ils")
        who = self.subject
        draft.add(phrases.verb_group(self.verb, who.person, who.feminine, self.past, False, before))


@dataclass(frozen=True, slots=True)
class Clause:
    """A subject and what is said of it, perhaps with a reason."""

    subject: Nominal
    predicate: Predicate
    reason: Reason | None = None

    def write(self, draft: Draft) -> None:
        """Subject, predicate, reason."""
        subject_head = self.subject.write(draft)
        object_head = self.predicate.write(draft, self.subject)
        if self.reason:
            antecedent_head = object_head if self.reason.of_object else subject_head
            assert antecedent_head is not None, "the reason is about an object that is not there"
            self.reason.write(draft, antecedent_head)


@dataclass(frozen=True, slots=True)
class Reason:
    """*because it was too tired*: the pronoun takes its gender from what it means."""

    antecedent: Nominal
    of_object: bool
    """Whether the antecedent is the clause's object rather than its subject."""
    state: State

    def write(self, draft: Draft, antecedent_head: Position) -> None:
        """*because*, the pronoun, its state."""
        draft.add(phrases.BECAUSE)
        pronoun = draft.add(_pronoun(self.antecedent))
        draft.refer(pronoun, antecedent_head)
        self.state.write(draft, self.antecedent)


def _pronoun(antecedent: Nominal) -> Phrase:
    fr = "elle" if antecedent.feminine else "il"
    if antecedent.person == "ils":
        return phrases.PRONOUNS["they", fr + "s"]
    if antecedent.human:
        return phrases.PRONOUNS["she" if antecedent.feminine else "he", fr]
    return phrases.PRONOUNS["it", fr]


def write_pair(*clauses: Clause, tags: frozenset[str] = frozenset()) -> Pair:
    """A sentence of one clause, or of several joined by *and*, in both languages."""
    draft = Draft()
    for i, clause in enumerate(clauses):
        if i:
            draft.add(phrases.AND)
        clause.write(draft)
    return draft.pair(tags)
