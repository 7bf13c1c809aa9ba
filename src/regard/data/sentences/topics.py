"""Sentences with a topic, made by the grammar of this world.

The topic follows from the words, the first of these that is there deciding: a profession (*work*),
a land or a city (*travel*), food (*food*), a street or the like (*roads*), an animal (*animals*);
else the sentence is about *people*.
"""

from __future__ import annotations

from collections.abc import Callable

from regard.data.draw import Draw
from regard.data.sentences import verbs
from regard.data.sentences.grammar import Grammar, Sentence
from regard.data.sentences.lexicon import Noun
from regard.data.sentences.menus import Menus
from regard.data.sentences.nominals import Nominal
from regard.data.sentences.nouns import ANIMALS, FOODS, HUMANS, ROADS
from regard.data.sentences.parts import Parts
from regard.data.sentences.trees import Action, Clause, pair

TOPICS = ("animals", "food", "people", "roads", "travel", "work")

_WORKING = frozenset({"work", "works", "worked"})
"""What would be about work in any other sentence."""


class Topics:
    """Draws one sentence with its topic at a time."""

    def __init__(self, draw: Draw) -> None:
        self._draw = draw
        self._parts = Parts(draw, Menus(()))
        grammar = Grammar(self._parts)
        self._kinds: dict[str, Callable[[], Sentence]] = {
            "animals": self._animals,
            "food": lambda: self._done_to(FOODS),
            "people": self._people,
            "roads": lambda: self._done_to(ROADS),
            "travel": grammar.travelling,
            "work": grammar.working_as,
        }

    def draw(self) -> tuple[str, str]:
        """A sentence and its topic, all topics as often."""
        topic = self._draw.one(TOPICS)
        while True:
            text = pair(*self._kinds[topic]()).source
            if topic == "work" or not _WORKING.intersection(text.split(" ")):
                return text, topic

    def _animals(self) -> Sentence:
        """*the frog sleeps near the church*, *the dog did not see my aunt*."""
        draw, parts = self._draw, self._parts
        subject = parts.noun_phrase(ANIMALS)
        past = draw.chance(0.5)
        if draw.chance(0.5):
            return (Clause(subject, parts.errand(subject, past=past, more=0.5)),)
        verb = draw.one(verbs.ON_ANIMATES)
        whom = parts.animate(other_than=subject)
        return (Clause(subject, Action(verb, past, draw.chance(0.3), whom)),)

    def _people(self) -> Sentence:
        """*john loves mary*, *my aunt went to the museum*."""
        draw, parts = self._draw, self._parts
        subject = parts.person()
        past = draw.chance(0.5)
        if draw.chance(0.5):
            return (Clause(subject, parts.errand(subject, past=past, more=0.0)),)
        verb = parts.verb(verbs.AMONG_PEOPLE + verbs.ON_ANIMATES, subject, past=past)
        whom: Nominal = parts.named(other_than=subject)
        if draw.chance(0.5):
            whom = parts.noun_phrase(HUMANS, definite=True, other_than=subject)
        return (Clause(subject, Action(verb, past, draw.chance(0.3), whom)),)

    def _done_to(self, nouns: tuple[Noun, ...]) -> Sentence:
        """*the dog did not eat the apple*, *my brother crossed the old bridge*."""
        draw, parts = self._draw, self._parts
        subject = draw.one((parts.person, parts.animate))()
        past = draw.chance(0.5)
        verb = parts.verb(verbs.ON_THINGS[nouns[0].kind], subject, past=past)
        thing = parts.noun_phrase(nouns, definite=True)
        return (Clause(subject, Action(verb, past, draw.chance(0.3), thing)),)
