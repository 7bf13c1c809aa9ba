"""The worlds ``sentiment`` and ``topics``: English sentences with a label.

**Sentiment.** An opinion is one word: *loves* or *hates*, *wonderful* or *horrible*. A *not* in its
own clause turns it around; a *not* in another clause changes nothing. Whoever counts words will be
wrong.

**Topics.** The topic follows from the words, the first of these that is there deciding: a
profession (*work*), a land or a city (*travel*), food (*food*), a street or the like (*roads*), an
animal (*animals*); else the sentence is about *people*.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from regard.data.records import Labelled
from regard.data.worlds import lexicon
from regard.data.worlds.drawing import Parts
from regard.data.worlds.grammar import Grammar, Sentence
from regard.data.worlds.lexicon import ALL_KINDS, ANIMALS, HUMANS, THINGS, Noun
from regard.data.worlds.stable_random import StableRandom
from regard.data.worlds.trees import Action, Clause, Nominal, State, write_pair

POSITIVE, NEGATIVE = "positive", "negative"

GOOD = lexicon.adjectives(
    ALL_KINDS,
    "wonderful merveilleux, magnificent magnifique, charming charmant, splendid splendide, "
    "adorable adorable, perfect parfait, pleasant agréable, marvellous fabuleux",
)
BAD = lexicon.adjectives(
    ALL_KINDS,
    "horrible horrible, awful affreux, ugly laid, boring ennuyeux, mediocre médiocre, "
    "disgusting dégoûtant, unbearable insupportable, dreadful épouvantable",
)
_MIXED = "beautiful"
"""Praise that only adorns elsewhere in this world; here it would be a second opinion."""

N_TEST = 1000
"""Sentences of ``valid``, and of ``test``."""
_PATIENCE = 100  # draws for each sentence that is wanted


class Opinions(Parts):
    """Draws one sentence with its label at a time."""

    def labelled(self) -> tuple[str, str]:
        """A sentence, and what it says: ``positive`` or ``negative``, both as often."""
        while True:
            good, negated = self.draw.chance(0.5), self.draw.chance(0.4)
            kinds = (self._stated, self._stated, self._felt, self._reasoned, self._joined)
            clauses = self.draw.one(kinds)(good, negated)
            text = write_pair(*clauses).source
            if _MIXED not in text.split(" "):
                return text, POSITIVE if good != negated else NEGATIVE

    def _stated(self, good: bool, negated: bool) -> tuple[Clause, ...]:
        """*the old museum was not very pleasant*."""
        subject = self.noun_phrase(self._nouns())
        return (Clause(subject, self._state(good, negated)),)

    def _felt(self, good: bool, negated: bool) -> tuple[Clause, ...]:
        """*my sister does not hate the black dog*."""
        subject = self.person()
        if subject.person in ("je", "nous") and not good:
            subject = self.named()  # this world's *i* hates nothing
        verb = lexicon.LOVE if good else lexicon.HATE
        whom = self.noun_phrase(self._nouns(), definite=True, other_than=subject)
        return (Clause(subject, Action(verb, False, negated, whom)),)

    def _reasoned(self, good: bool, negated: bool) -> tuple[Clause, ...]:
        """*the dog did not enter the hotel because it was horrible*."""
        nouns = self.draw.one(THINGS)
        thing = self.noun_phrase(nouns, plural=False, definite=True)
        verb = self.draw.one(lexicon.ON_THINGS[nouns[0].kind])
        subject = self.noun_phrase(self.draw.one((HUMANS, ANIMALS)), plural=False, definite=True)
        deed = Action(verb, self.draw.chance(0.5), self.draw.chance(0.4), thing)
        return (Clause(subject, deed, self._state(good, negated, past=deed.past), True),)

    def _joined(self, good: bool, negated: bool) -> tuple[Clause, ...]:
        """*the cat did not sleep and the museum was charming*, in either order."""
        subject = self.animate(adorned=0.0)
        aside = Clause(subject, self.errand(subject, past=self.draw.chance(0.5), more=0.0))
        (said,) = (self._stated if self.draw.chance(0.5) else self._felt)(good, negated)
        return (aside, said) if self.draw.chance(0.5) else (said, aside)

    def _state(self, good: bool, negated: bool, *, past: bool | None = None) -> State:
        adjective = self.draw.one(GOOD if good else BAD)
        past = self.draw.chance(0.5) if past is None else past
        return State(adjective, past, negated, self.draw.one((None, None, "very")))

    def _nouns(self) -> tuple[Noun, ...]:
        return self.draw.one((ANIMALS, HUMANS, *THINGS))


TOPICS = ("animals", "food", "people", "roads", "travel", "work")

_WORKING = frozenset({"work", "works", "worked"})
"""What would be about work in any other sentence."""


class Topics(Grammar):
    """Draws one sentence with its topic at a time."""

    def labelled(self) -> tuple[str, str]:
        """A sentence and its topic, all topics as often."""
        topic = self.draw.one(TOPICS)
        kinds: dict[str, Callable[[], Sentence]] = {
            "animals": self._animals,
            "food": lambda: self._done_to(lexicon.FOODS),
            "people": self._people,
            "roads": lambda: self._done_to(lexicon.ROADS),
            "travel": self.travelling,
            "work": self.working_as,
        }
        while True:
            text = write_pair(*kinds[topic]()).source
            if topic == "work" or not _WORKING.intersection(text.split(" ")):
                return text, topic

    def _animals(self) -> Sentence:
        """*the frog sleeps near the church*, *the dog did not see my aunt*."""
        draw = self.draw
        subject = self.noun_phrase(ANIMALS)
        past = draw.chance(0.5)
        if draw.chance(0.5):
            return (Clause(subject, self.errand(subject, past=past, more=0.5)),)
        verb = draw.one(lexicon.ON_ANIMATES)
        whom = self.animate(other_than=subject)
        return (Clause(subject, Action(verb, past, draw.chance(0.3), whom)),)

    def _people(self) -> Sentence:
        """*john loves mary*, *my aunt went to the museum*."""
        draw = self.draw
        subject = self.person()
        past = draw.chance(0.5)
        if draw.chance(0.5):
            return (Clause(subject, self.errand(subject, past=past, more=0.0)),)
        verb = self.verb(lexicon.AMONG_PEOPLE + lexicon.ON_ANIMATES, subject, past=past)
        whom: Nominal = self.named(other_than=subject)
        if draw.chance(0.5):
            whom = self.noun_phrase(HUMANS, definite=True, other_than=subject)
        return (Clause(subject, Action(verb, past, draw.chance(0.3), whom)),)

    def _done_to(self, nouns: tuple[Noun, ...]) -> Sentence:
        """*the dog did not eat the apple*, *my brother crossed the old bridge*."""
        draw = self.draw
        subject = draw.one((self.person, self.animate))()
        past = draw.chance(0.5)
        verb = self.verb(lexicon.ON_THINGS[nouns[0].kind], subject, past=past)
        thing = self.noun_phrase(nouns, definite=True)
        return (Clause(subject, Action(verb, past, draw.chance(0.3), thing)),)


def build_labelled(
    world: str, *, seed: int = 0, n_train: int = 20_000
) -> Mapping[str, tuple[Labelled, ...]]:
    """Splits that share no sentence; fewer than ``n_train`` where no more seem to exist."""
    draw = StableRandom(seed)
    one = Opinions(draw).labelled if world == "sentiment" else Topics(draw).labelled
    known: set[str] = set()
    splits: dict[str, tuple[Labelled, ...]] = {}
    for name, n in (("test", N_TEST), ("valid", N_TEST), ("train", n_train)):
        found: list[Labelled] = []
        for _ in range(_PATIENCE * n):
            text, label = one()
            if text not in known:
                known.add(text)
                found.append(Labelled(text, label=label))
            if len(found) == n:
                break
        splits[name] = tuple(found)
    return {name: splits[name] for name in ("train", "valid", "test")}
