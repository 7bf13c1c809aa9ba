"""Abstract sentences: small trees that write themselves in both languages at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from regard.data.records import Pair
from regard.data.worlds import lexicon, phrases
from regard.data.worlds.lexicon import Adjective, Person
from regard.data.worlds.phrases import Draft, Phrase, Position, Relation, simple

_AND = simple("and", "et")


@dataclass(frozen=True, slots=True)
class Fixed:
    """A subject or an object that never changes: a name, a pronoun, *africa*, *john and mary*."""

    phrases: tuple[Phrase, ...]
    person: Person = "il"
    """What a verb agrees with."""
    feminine: bool = False
    """What adjectives and participles agree with."""
    human: bool = True
    """Whether English says *he* or *she* of it, and *who*."""

    def write(self, draft: Draft, *, negated: bool = False) -> Position:
        """Write it and give the place of its head, the first word."""
        head, *_ = [draft.add(phrase) for phrase in self.phrases]
        return head


def named(name: lexicon.Name) -> Fixed:
    """A person with a name."""
    return Fixed((simple(name.text, name.text),), feminine=name.feminine)


def both(first: Fixed, second: Fixed) -> Fixed:
    """*john and mary*: masculine in French as soon as one of them is."""
    together = (*first.phrases, _AND, *second.phrases)
    return Fixed(together, "ils", first.feminine and second.feminine)


def on_map(place: lexicon.ProperNoun) -> Fixed:
    """A place with a name, as an object: *africa*."""
    return Fixed((phrases.proper_group(place, None),), human=False)


@dataclass(frozen=True, slots=True)
class NounPhrase:
    """*the little dog*, *the door of the house*, *the dog that sees the cat*."""

    noun: lexicon.Noun
    determiner: lexicon.Determiner
    plural: bool = False
    before: Adjective | None = None
    after: Adjective | None = None
    of: Phrase | None = None
    relative: RelativeClause | None = None

    @property
    def person(self) -> Person:
        """What a verb agrees with."""
        return "ils" if self.plural else "il"

    @property
    def feminine(self) -> bool:
        """What adjectives and participles agree with."""
        return self.noun.feminine

    @property
    def human(self) -> bool:
        """Whether English says *he* or *she* of it, and *who*."""
        return self.noun.kind == "human"

    def group(
        self, *, negated: bool = False, preposition: lexicon.Preposition | None = None
    ) -> Phrase:
        """Determiner, adjectives and noun, perhaps after a preposition."""
        return phrases.noun_group(
            self.noun, self.determiner, self.plural, self.before, self.after, negated, preposition
        )

    def write(self, draft: Draft, *, negated: bool = False) -> Position:
        """The group, then what hangs on it; ``negated``: as the object of a negated verb."""
        first = len(draft.en)
        head = draft.add(self.group(negated=negated))
        draft.relations.append(("determiner", first, head[0]))
        if self.of:
            draft.add_led(self.of)
        if self.relative:
            self.relative.write(draft, self)
        return head


Nominal = Fixed | NounPhrase
"""What can be a subject or an object."""


@dataclass(frozen=True, slots=True)
class Action:
    """*did not cross the street*, *sleeps near the church*."""

    verb: lexicon.VerbForms
    past: bool
    negated: bool = False
    object: Nominal | None = None
    adjuncts: tuple[Phrase, ...] = ()
    """Places and times; already written, for they agree with nothing."""

    def write(self, draft: Draft, subject: Nominal, at: Position) -> Position | None:
        """Verb, object, adjuncts; the subject stands ``at``. Gives the place of the object."""
        who = subject.person, subject.feminine
        verb = draft.add(phrases.verb_group(self.verb, *who, self.past, self.negated, None))
        draft.relations.append(("subject", at[0], verb[0]))
        head = None
        if self.object:
            direct = self.verb.preposition is None
            head = self.object.write(draft, negated=self.negated and direct)
            draft.relations.append(("object", head[0], verb[0]))
        for adjunct in self.adjuncts:
            draft.add_led(adjunct)
        return head


@dataclass(frozen=True, slots=True)
class State:
    """*was too tired*, *am a student*."""

    adjective: Adjective
    past: bool
    negated: bool = False
    degree: str | None = None

    def write(self, draft: Draft, subject: Nominal, _at: Position) -> None:
        """*be*, perhaps a degree, the adjective."""
        who = subject.person, subject.feminine
        draft.add(phrases.state_group(self.adjective, self.degree, *who, self.past, self.negated))


@dataclass(frozen=True, slots=True)
class RelativeClause:
    """A relative clause: *that sees the cat* or, with a subject of its own, *that the cat sees*."""

    action: Action
    subject: Nominal | None = None

    def write(self, draft: Draft, antecedent: NounPhrase) -> None:
        """The pronoun and the action; a participle agrees with the object before it."""
        if self.subject is None:
            pronoun = draft.add(simple("who" if antecedent.human else "that", "qui"))
            self.action.write(draft, antecedent, pronoun)
            return
        draft.add(simple("that", "que"))
        head = self.subject.write(draft)
        who, verb, past = self.subject, self.action.verb, self.action.past
        before = (antecedent.feminine, antecedent.plural)
        at = draft.add(phrases.verb_group(verb, who.person, who.feminine, past, False, before))
        draft.relations.append(("subject", head[0], at[0]))


@dataclass(frozen=True, slots=True)
class Clause:
    """A subject and what is said of it, perhaps with a reason: *because it was too tired*."""

    subject: Nominal
    predicate: Action | State
    reason: State | None = None
    of_object: bool = False
    """Whether the reason is about the object rather than the subject."""

    @property
    def antecedent(self) -> Nominal:
        """What the pronoun of the reason means."""
        if not self.of_object:
            return self.subject
        assert isinstance(self.predicate, Action), "a state has no object"
        assert self.predicate.object is not None, "the reason is about an object that is not there"
        return self.predicate.object

    def write(self, draft: Draft) -> None:
        """Subject, predicate and reason, whose pronoun takes its gender from what it means."""
        subject_head = self.subject.write(draft)
        object_head = self.predicate.write(draft, self.subject, subject_head)
        if self.reason:
            draft.add(simple("because", "parce que"))
            pronoun = draft.add(_pronoun(self.antecedent))
            head = object_head if self.of_object else subject_head
            assert head is not None, "an object has a head"
            draft.antecedents.append((pronoun, head))
            self.reason.write(draft, self.antecedent, pronoun)


def _pronoun(antecedent: Nominal) -> Phrase:
    fr = "elle" if antecedent.feminine else "il"
    if antecedent.person == "ils":
        return simple("they", fr + "s")
    if antecedent.human:
        return simple("she" if antecedent.feminine else "he", fr)
    return simple("it", fr)


def write_pair(*clauses: Clause, tags: frozenset[str] = frozenset()) -> Pair:
    """A sentence of one clause, or of several joined by *and*, in both languages."""
    return _draft(clauses).pair(tags)


def write_relations(*clauses: Clause) -> tuple[Pair, tuple[Relation, ...]]:
    """The same with the relations between its English words."""
    draft = _draft(clauses)
    return draft.pair(), tuple(draft.relations)


def _draft(clauses: Iterable[Clause]) -> Draft:
    draft = Draft()
    for i, clause in enumerate(clauses):
        if i:
            draft.add(_AND)
        clause.write(draft)
    return draft
