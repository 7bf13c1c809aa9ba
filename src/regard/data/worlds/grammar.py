"""The kinds of sentences, each a method that draws one abstract sentence.

Kinds are left out in which a reader of either language would have to guess: *they* without an
antecedent (*ils* or *elles*), *his* and *her* (both *son*), *je suis* from *suivre*, a past of
lasting states, nouns whose gender or number English or French does not show.
"""

from __future__ import annotations

from collections.abc import Callable

from regard.data.worlds import lexicon, phrases
from regard.data.worlds.drawing import THINGS, WE, I, Parts
from regard.data.worlds.lexicon import (
    ANIMALS,
    DECISIVE,
    FAMILY,
    HUMANS,
    MY,
    OUR,
    PARTS,
    PLACES,
    THE,
    Adjective,
    Noun,
)
from regard.data.worlds.phrases import Phrase
from regard.data.worlds.trees import (
    Action,
    Clause,
    Doing,
    DoneTo,
    Named,
    Nominal,
    NounPhrase,
    OnMap,
    Reason,
    State,
    Trade,
)

Sentence = tuple[Clause, ...]
"""One clause, or several joined by *and*."""

_OF_PEOPLE = tuple(adjective for adjective in DECISIVE if "human" in adjective.about)
_TRIPS = (
    *[lexicon.VISIT] * 3,
    *[lexicon.GO] * 2,
    lexicon.RETURN,
    lexicon.ARRIVE,
    lexicon.LIVE,
    lexicon.WORK,
    lexicon.LOVE,
    lexicon.LEAVE,
)
_DIRECT_TRIPS = frozenset({lexicon.VISIT, lexicon.LOVE, lexicon.LEAVE})
_MOVING_TRIPS = frozenset({lexicon.GO, lexicon.RETURN})


class Grammar:
    """Draws abstract sentences of every kind."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._draw = parts.draw
        self._collocations = parts.collocations
        kinds: tuple[tuple[int, Callable[[], Sentence]], ...] = (
            (26, self.reasoned),
            (23, self.acting),
            (4, self.among_names),
            (15, self.being),
            (7, self.working_as),
            (7, self.travelling),
            (7, self.alone),
            (7, self.related),
            (4, self.joined),
        )
        self._kinds = tuple(kind for weight, kind in kinds for _ in range(weight))

    def sentence(self) -> Sentence:
        """One sentence of any kind."""
        return self._draw.one(self._kinds)()

    def acting(self) -> Sentence:
        """*the dog did not see the black cat*."""
        draw, parts = self._draw, self._parts
        subject = parts.person() if draw.chance(0.45) else parts.animate()
        past = draw.chance(0.5)
        act = parts.action(subject, past=past, negated=draw.chance(0.3))
        adjuncts = parts.adjuncts(past=past)
        return (Clause(subject, Action(act.verb, past, act.negated, act.object, adjuncts)),)

    def among_names(self) -> Sentence:
        """*john loves mary*."""
        draw, parts = self._draw, self._parts
        subject = parts.named()
        past = draw.chance(0.5)
        verb = parts.verb(lexicon.AMONG_PEOPLE + lexicon.ON_ANIMATES, subject, past=past)
        whom = parts.named(other_than=subject)
        adjuncts = parts.adjuncts(past=past)
        return (Clause(subject, Action(verb, past, draw.chance(0.3), whom, adjuncts)),)

    def being(self) -> Sentence:
        """*i was very tired*, *the door of the house is not red*."""
        draw = self._draw
        subject: Nominal
        if draw.chance(0.2):
            subject = draw.one((I, WE)) if draw.chance(0.5) else self._parts.named()
            adjective = draw.one(_OF_PEOPLE)
        else:
            subject = self._thing_that_is()
            adjective = self._stated_of(subject)
        degree = draw.one((None, None, "too", "very"))
        return (Clause(subject, State(adjective, draw.chance(0.5), draw.chance(0.25), degree)),)

    def _thing_that_is(self) -> NounPhrase:
        nouns = self._draw.one((ANIMALS, ANIMALS, HUMANS, *THINGS, PARTS))
        if nouns is not PARTS:
            return self._parts.noun_phrase(nouns, adorned=0.1)
        part = self._parts.noun_phrase(nouns, plural=False, adorned=0.0)
        place = self._parts.noun_phrase(PLACES, adorned=0.0, definite=True)
        of = place.group(preposition=lexicon.OF)
        return NounPhrase(part.noun, THE, of=of)

    def _stated_of(self, subject: NounPhrase) -> Adjective:
        adjective = self._draw.one(self._collocations.stated[subject.noun])
        while adjective in (subject.before, subject.after):
            adjective = self._draw.one(self._collocations.stated[subject.noun])
        return adjective

    def working_as(self) -> Sentence:
        """*i am a student*."""
        draw, parts = self._draw, self._parts
        trade = Trade(draw.one(lexicon.PROFESSIONS), draw.chance(0.4), draw.chance(0.3))
        if draw.chance(0.4):
            return (Clause(parts.noun_phrase(FAMILY, adorned=0.0), trade),)
        return (Clause(parts.person(adorned=0.0), trade),)

    def travelling(self) -> Sentence:
        """*jane visits africa in september*."""
        draw, parts = self._draw, self._parts
        subject = parts.two_named() if draw.chance(0.1) else parts.person()
        place = draw.one(lexicon.LANDS + lexicon.CITIES)
        verb = parts.verb(_TRIPS, subject, past=False)
        goal = OnMap(place) if verb in _DIRECT_TRIPS else None
        adjuncts: tuple[Phrase, ...] = ()
        if goal is None:
            adjuncts = (phrases.place_group(place, "to" if verb in _MOVING_TRIPS else "in"),)
        lasting = verb.en_past is None
        if not lasting and draw.chance(0.55):
            adjuncts = (*adjuncts, phrases.month_group(*draw.one(lexicon.MONTHS)))
        past = not lasting and draw.chance(0.5)
        return (Clause(subject, Action(verb, past, draw.chance(0.2), goal, adjuncts)),)

    def alone(self) -> Sentence:
        """*the frog sleeps near the church*, *my aunt went to the museum*."""
        draw, parts = self._draw, self._parts
        subject = parts.person() if draw.chance(0.4) else parts.animate()
        return (Clause(subject, parts.errand(subject, past=draw.chance(0.5), more=0.6)),)

    def joined(self) -> Sentence:
        """*john sings and mary dances*."""
        parts = self._parts
        past = self._draw.chance(0.5)
        first, second = parts.person(adorned=0.0), parts.animate(adorned=0.0)
        return (
            Clause(first, parts.errand(first, past=past, more=0.0)),
            Clause(second, parts.errand(second, past=past, more=0.0)),
        )

    def related(self) -> Sentence:
        """*the dog that sees the cat sleeps*, *the apple that i found was sour*."""
        past = self._draw.chance(0.5)
        return (self.by_actor(past) if self._draw.chance(0.5) else self._by_object(past),)

    def by_actor(self, past: bool) -> Clause:
        """*the dog that sees the cat sleeps*."""
        draw, parts = self._draw, self._parts
        plain = self._unowned(draw.one((ANIMALS, ANIMALS, HUMANS)))
        doing = Doing(parts.action(plain, past=past, adorned=0.0))
        subject = NounPhrase(plain.noun, plain.determiner, plain.plural, relative=doing)
        if draw.chance(0.5):
            return Clause(subject, parts.errand(subject, past=past, more=0.0))
        return Clause(subject, self._state(self._collocations.decisive[plain.noun], past))

    def _by_object(self, past: bool) -> Clause:
        """*the apple that i found was sour*."""
        draw, parts = self._draw, self._parts
        who: Nominal = draw.one((I, WE))
        if draw.chance(0.5):
            who = parts.named() if draw.chance(0.5) else parts.noun_phrase(HUMANS, adorned=0.0)
        done = DoneTo(who, draw.one(lexicon.IN_RELATIVES), past)
        plain = self._unowned(draw.one((*THINGS, ANIMALS, ANIMALS)))
        subject = NounPhrase(plain.noun, plain.determiner, plain.plural, relative=done)
        return Clause(subject, self._state(self._collocations.stated[plain.noun], past))

    def _unowned(self, nouns: tuple[Noun, ...]) -> NounPhrase:
        """A noun that a relative clause may follow: *my dog that sees the cat* sounds odd."""
        plural = self._draw.chance(0.15)
        phrase = self._parts.noun_phrase(nouns, plural=plural, adorned=0.0)
        determiner = THE if phrase.determiner in (MY, OUR) else phrase.determiner
        return NounPhrase(phrase.noun, determiner, phrase.plural)

    def _state(self, adjectives: tuple[Adjective, ...], past: bool) -> State:
        return State(self._draw.one(adjectives), past, False, self._draw.one((None, "very")))

    def reasoned(self) -> Sentence:
        """*the animal did not cross the street because it was too tired*."""
        draw, parts = self._draw, self._parts
        plural = draw.chance(0.16)
        subject: NounPhrase | Named
        if not plural and draw.chance(0.07):
            subject = parts.named()
        else:
            nouns = HUMANS if draw.chance(0.15) else ANIMALS
            subject = self._definite(nouns, plural)
        target = self._definite(draw.one(THINGS), plural)
        of_object = draw.chance(0.5)
        about = target if of_object else subject
        fitting = (
            _OF_PEOPLE if isinstance(about, Named) else self._collocations.decisive[about.noun]
        )
        act = self.deed(target)
        return (reasoned(subject, act, of_object=of_object, adjective=draw.one(fitting)),)

    def _definite(self, nouns: tuple[Noun, ...], plural: bool) -> NounPhrase:
        return self._parts.noun_phrase(nouns, plural=plural, adorned=0.1, definite=True)

    def deed(self, target: NounPhrase) -> Action:
        """Something that animals and people may do to a thing, or may not do."""
        draw = self._draw
        verb = draw.one(lexicon.ON_THINGS[target.noun.kind])
        return Action(verb, draw.chance(0.6), draw.chance(0.65), target)


def reasoned(
    subject: NounPhrase | Named, action: Action, *, of_object: bool, adjective: Adjective
) -> Clause:
    """An action and its reason: *did not … because it was too …*, *… because it was very …*."""
    assert action.object is not None, "a reason needs two things that it may be about"
    state = State(adjective, action.past, False, "too" if action.negated else "very")
    about = action.object if of_object else subject
    return Clause(subject, action, Reason(about, of_object, state))
