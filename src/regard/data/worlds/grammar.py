"""The kinds of sentences, each a method that draws one abstract sentence.

Kinds are left out in which a reader of either language would have to guess: *they* without an
antecedent (*ils* or *elles*), *his* and *her* (both *son*), *je suis* from *suivre*, a past of
lasting states, nouns whose gender or number English or French does not show.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from regard.data.worlds import lexicon, trees
from regard.data.worlds.drawing import WE, Combination, I, Parts
from regard.data.worlds.lexicon import ANIMALS, DECISIVE, HUMANS, THE, THINGS, Adjective, Noun
from regard.data.worlds.phrases import Phrase, proper_group
from regard.data.worlds.stable_random import StableRandom
from regard.data.worlds.trees import Action, Clause, Nominal, NounPhrase, State

Sentence = tuple[Clause, ...]
"""One clause, or several joined by *and*."""

_OF_PEOPLE = tuple(adjective for adjective in DECISIVE if "human" in adjective.about)
_DIRECT_TRIPS = (lexicon.VISIT, lexicon.LOVE, lexicon.LEAVE)
_MOVING_TRIPS = (lexicon.GO, lexicon.RETURN)
_TRIPS = (
    *([lexicon.VISIT] * 3 + [lexicon.GO] * 2),
    *(lexicon.RETURN, lexicon.ARRIVE, lexicon.LIVE, lexicon.WORK, lexicon.LOVE, lexicon.LEAVE),
)


class Grammar(Parts):
    """Draws abstract sentences of every kind."""

    def __init__(self, draw: StableRandom, held_out: Collection[Combination] = ()) -> None:
        super().__init__(draw, held_out)
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
        return self.draw.one(self._kinds)()

    def acting(self) -> Sentence:
        """*the dog did not see the black cat*."""
        draw = self.draw
        subject = self.person() if draw.chance(0.45) else self.animate()
        past = draw.chance(0.5)
        act = self.action(subject, past=past, negated=draw.chance(0.3))
        adjuncts = self.adjuncts(past=past)
        return (Clause(subject, Action(act.verb, past, act.negated, act.object, adjuncts)),)

    def among_names(self) -> Sentence:
        """*john loves mary*."""
        draw = self.draw
        subject = self.named()
        past = draw.chance(0.5)
        verb = self.verb(lexicon.AMONG_PEOPLE + lexicon.ON_ANIMATES, subject, past=past)
        whom = self.named(other_than=subject)
        adjuncts = self.adjuncts(past=past)
        return (Clause(subject, Action(verb, past, draw.chance(0.3), whom, adjuncts)),)

    def being(self) -> Sentence:
        """*i was very tired*, *the door of the house is not red*."""
        draw = self.draw
        subject: Nominal
        if draw.chance(0.2):
            subject = draw.one((I, WE)) if draw.chance(0.5) else self.named()
            adjective = draw.one(_OF_PEOPLE)
        else:
            subject = self._thing_that_is()
            adjective = self._stated_of(subject)
        degree = draw.one((None, None, "too", "very"))
        return (Clause(subject, State(adjective, draw.chance(0.5), draw.chance(0.25), degree)),)

    def _thing_that_is(self) -> NounPhrase:
        nouns = self.draw.one((ANIMALS, ANIMALS, HUMANS, *THINGS, lexicon.PARTS))
        if nouns is not lexicon.PARTS:
            return self.noun_phrase(nouns, adorned=0.1)
        part = self.noun_phrase(nouns, plural=False, adorned=0.0)
        place = self.noun_phrase(lexicon.PLACES, adorned=0.0, definite=True)
        of = place.group(preposition=lexicon.OF)
        return NounPhrase(part.noun, THE, of=of)

    def _stated_of(self, subject: NounPhrase) -> Adjective:
        adjective = self.draw.one(self.collocations.stated[subject.noun])
        while adjective in (subject.before, subject.after):
            adjective = self.draw.one(self.collocations.stated[subject.noun])
        return adjective

    def working_as(self) -> Sentence:
        """*i am a student*."""
        draw = self.draw
        trade = State(draw.one(lexicon.PROFESSIONS), draw.chance(0.4), draw.chance(0.3))
        if draw.chance(0.4):
            return (Clause(self.noun_phrase(lexicon.FAMILY, adorned=0.0), trade),)
        return (Clause(self.person(adorned=0.0), trade),)

    def travelling(self) -> Sentence:
        """*jane visits africa in september*."""
        draw = self.draw
        subject = self.two_named() if draw.chance(0.1) else self.person()
        place = draw.one(lexicon.LANDS + lexicon.CITIES)
        verb = self.verb(_TRIPS, subject, past=False)
        goal = trees.on_map(place) if verb in _DIRECT_TRIPS else None
        adjuncts: tuple[Phrase, ...] = ()
        if goal is None:
            adjuncts = (proper_group(place, "to" if verb in _MOVING_TRIPS else "in"),)
        lasting = verb.en_past is None
        if not lasting and draw.chance(0.55):
            adjuncts = (*adjuncts, proper_group(draw.one(lexicon.MONTHS), "in"))
        past = not lasting and draw.chance(0.5)
        return (Clause(subject, Action(verb, past, draw.chance(0.2), goal, adjuncts)),)

    def alone(self) -> Sentence:
        """*the frog sleeps near the church*, *my aunt went to the museum*."""
        draw = self.draw
        subject = self.person() if draw.chance(0.4) else self.animate()
        return (Clause(subject, self.errand(subject, past=draw.chance(0.5), more=0.6)),)

    def joined(self) -> Sentence:
        """*john sings and mary dances*."""
        past = self.draw.chance(0.5)
        first, second = self.person(adorned=0.0), self.animate(adorned=0.0)
        return (
            Clause(first, self.errand(first, past=past, more=0.0)),
            Clause(second, self.errand(second, past=past, more=0.0)),
        )

    def related(self) -> Sentence:
        """*the dog that sees the cat sleeps*, *the apple that i found was sour*."""
        past = self.draw.chance(0.5)
        return (self.by_actor(past) if self.draw.chance(0.5) else self._by_object(past),)

    def by_actor(self, past: bool) -> Clause:
        """*the dog that sees the cat sleeps*."""
        draw = self.draw
        plain = self._unowned(draw.one((ANIMALS, ANIMALS, HUMANS)))
        doing = trees.RelativeClause(self.action(plain, past=past, adorned=0.0))
        subject = NounPhrase(plain.noun, plain.determiner, plain.plural, relative=doing)
        if draw.chance(0.5):
            return Clause(subject, self.errand(subject, past=past, more=0.0))
        return Clause(subject, self._state(self.collocations.decisive[plain.noun], past))

    def _by_object(self, past: bool) -> Clause:
        """*the apple that i found was sour*."""
        draw = self.draw
        who: Nominal = draw.one((I, WE))
        if draw.chance(0.5):
            who = self.named() if draw.chance(0.5) else self.noun_phrase(HUMANS, adorned=0.0)
        done = trees.RelativeClause(Action(draw.one(lexicon.IN_RELATIVES), past), who)
        plain = self._unowned(draw.one((*THINGS, ANIMALS, ANIMALS)))
        subject = NounPhrase(plain.noun, plain.determiner, plain.plural, relative=done)
        return Clause(subject, self._state(self.collocations.stated[plain.noun], past))

    def _unowned(self, nouns: tuple[Noun, ...]) -> NounPhrase:
        """A noun that a relative clause may follow: *my dog that sees the cat* sounds odd."""
        plural = self.draw.chance(0.15)
        phrase = self.noun_phrase(nouns, plural=plural, adorned=0.0)
        determiner = THE if phrase.determiner in (lexicon.MY, lexicon.OUR) else phrase.determiner
        return NounPhrase(phrase.noun, determiner, phrase.plural)

    def _state(self, adjectives: tuple[Adjective, ...], past: bool) -> State:
        return State(self.draw.one(adjectives), past, False, self.draw.one((None, "very")))

    def reasoned(self) -> Sentence:
        """*the animal did not cross the street because it was too tired*."""
        draw = self.draw
        plural = draw.chance(0.16)
        subject: Nominal
        if not plural and draw.chance(0.07):
            subject = self.named()
        else:
            nouns = HUMANS if draw.chance(0.15) else ANIMALS
            subject = self._definite(nouns, plural)
        target = self._definite(draw.one(THINGS), plural)
        of_object = draw.chance(0.5)
        about = target if of_object else subject
        decisive = self.collocations.decisive
        fitting = decisive[about.noun] if isinstance(about, NounPhrase) else _OF_PEOPLE
        act = self.deed(target)
        return (reasoned(subject, act, of_object=of_object, adjective=draw.one(fitting)),)

    def _definite(self, nouns: tuple[Noun, ...], plural: bool) -> NounPhrase:
        return self.noun_phrase(nouns, plural=plural, adorned=0.1, definite=True)

    def deed(self, target: NounPhrase) -> Action:
        """Something that animals and people may do to a thing, or may not do."""
        draw = self.draw
        verb = draw.one(lexicon.ON_THINGS[target.noun.kind])
        return Action(verb, draw.chance(0.6), draw.chance(0.65), target)


def reasoned(subject: Nominal, action: Action, *, of_object: bool, adjective: Adjective) -> Clause:
    """An action and its reason: *did not … because it was too …*, *… because it was very …*."""
    degree = "too" if action.negated else "very"
    return Clause(subject, action, State(adjective, action.past, False, degree), of_object)
