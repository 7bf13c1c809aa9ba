"""Sentences that say something good or something bad, made by the grammar of this world.

An opinion is one word: *loves* or *hates*, *wonderful* or *horrible*. A *not* in its own clause
turns it around; a *not* in another clause changes nothing. Whoever counts words will be wrong.
"""

from __future__ import annotations

from regard.data.draw import Draw
from regard.data.sentences import french, verbs
from regard.data.sentences.lexicon import Adjective, Kind, Noun
from regard.data.sentences.menus import THINGS, Menus
from regard.data.sentences.nominals import Nominal
from regard.data.sentences.nouns import ANIMALS, HUMANS
from regard.data.sentences.parts import Parts
from regard.data.sentences.trees import Action, Clause, NounPhrase, Reason, State, pair

POSITIVE, NEGATIVE = "positive", "negative"

_ABOUT: frozenset[Kind] = frozenset({"animal", "human", "road", "place", "food", "load", "part"})


def _adjectives(table: str) -> tuple[Adjective, ...]:
    return tuple(
        Adjective(en=en, fr=fr, fr_feminine=french.feminine(fr), about=_ABOUT)
        for en, fr in (entry.split() for entry in table.split(","))
    )


GOOD = _adjectives(
    "wonderful merveilleux, magnificent magnifique, charming charmant, splendid splendide, "
    "adorable adorable, perfect parfait, pleasant agréable, marvellous fabuleux"
)
BAD = _adjectives(
    "horrible horrible, awful affreux, ugly laid, boring ennuyeux, mediocre médiocre, "
    "disgusting dégoûtant, unbearable insupportable, dreadful épouvantable"
)
_MIXED = "beautiful"
"""Praise that only adorns elsewhere in this world; here it would be a second opinion."""


class Opinions:
    """Draws one sentence with its label at a time."""

    def __init__(self, draw: Draw) -> None:
        self._draw = draw
        self._parts = Parts(draw, Menus(()))

    def draw(self) -> tuple[str, str]:
        """A sentence, and what it says: ``positive`` or ``negative``, both as often."""
        while True:
            good, negated = self._draw.chance(0.5), self._draw.chance(0.4)
            kinds = (self._stated, self._stated, self._felt, self._reasoned, self._joined)
            clauses = self._draw.one(kinds)(good, negated)
            text = pair(*clauses).source
            if _MIXED not in text.split(" "):
                return text, POSITIVE if good != negated else NEGATIVE

    def _stated(self, good: bool, negated: bool) -> tuple[Clause, ...]:
        """*the old museum was not very pleasant*."""
        subject = self._parts.noun_phrase(self._nouns())
        return (Clause(subject, self._state(good, negated)),)

    def _felt(self, good: bool, negated: bool) -> tuple[Clause, ...]:
        """*my sister does not hate the black dog*."""
        subject = self._parts.person()
        if subject.person in ("je", "nous") and not good:
            subject = self._parts.named()  # this world's *i* hates nothing
        verb = verbs.LOVE if good else verbs.HATE
        whom = self._parts.noun_phrase(self._nouns(), definite=True, other_than=subject)
        return (Clause(subject, Action(verb, False, negated, whom)),)

    def _reasoned(self, good: bool, negated: bool) -> tuple[Clause, ...]:
        """*the dog did not enter the hotel because it was horrible*."""
        subject, deed = self._deed()
        assert deed.object is not None, "a deed is done to something"
        state = self._state(good, negated, past=deed.past)
        return (Clause(subject, deed, Reason(deed.object, True, state)),)

    def _joined(self, good: bool, negated: bool) -> tuple[Clause, ...]:
        """*the cat did not sleep and the museum was charming*, in either order."""
        subject = self._parts.animate(adorned=0.0)
        aside = Clause(subject, self._parts.errand(subject, past=self._draw.chance(0.5), more=0.0))
        (said,) = (self._stated if self._draw.chance(0.5) else self._felt)(good, negated)
        return (aside, said) if self._draw.chance(0.5) else (said, aside)

    def _state(self, good: bool, negated: bool, *, past: bool | None = None) -> State:
        adjective = self._draw.one(GOOD if good else BAD)
        past = self._draw.chance(0.5) if past is None else past
        return State(adjective, past, negated, self._draw.one((None, None, "very")))

    def _deed(self) -> tuple[Nominal, Action]:
        """Something that is done to a thing, or not done; no opinion in it."""
        nouns = self._draw.one(THINGS)
        thing = self._parts.noun_phrase(nouns, plural=False, definite=True)
        verb = self._draw.one(verbs.ON_THINGS[nouns[0].kind])
        subject: NounPhrase = self._parts.noun_phrase(
            self._draw.one((HUMANS, ANIMALS)), plural=False, definite=True
        )
        return subject, Action(verb, self._draw.chance(0.5), self._draw.chance(0.4), thing)

    def _nouns(self) -> tuple[Noun, ...]:
        return self._draw.one((ANIMALS, HUMANS, *THINGS))
