"""Drawing the parts of sentences at random: who, what is done to whom, where and when."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence

from regard.data.worlds import lexicon
from regard.data.worlds.lexicon import ANIMALS, DECISIVE, HUMANS, NEUTRAL, THINGS, Adjective, Noun
from regard.data.worlds.phrases import Phrase, simple
from regard.data.worlds.stable_random import StableRandom
from regard.data.worlds.trees import Action, Fixed, Nominal, NounPhrase, both, named

Combination = tuple[Noun, Adjective]
Menu = dict[Noun, tuple[Adjective, ...]]

_ONE_IN = 6  # of the decisive adjectives that fit a noun, one in so many is held out
_LECTURE = frozenset({("animal", "tired"), ("street", "wide")})


def withheld_combinations(draw: StableRandom) -> tuple[Combination, ...]:
    """Pairs of a noun and a decisive adjective that only ``pronouns`` may show.

    Nouns take turns, so that all nouns and all adjectives of a kind lose about equally many
    partners. The lectures' two pairs are among them: nothing that a model says of a tired animal
    or of a wide street was learned from tired animals or wide streets.
    """
    held_out = dict.fromkeys(
        (noun, adjective)
        for nouns in (ANIMALS, *THINGS)
        for noun in nouns
        for adjective in DECISIVE
        if (noun.en, adjective.en) in _LECTURE
    )
    for nouns in (ANIMALS, *THINGS):
        adjectives = draw.shuffled([a for a in DECISIVE if nouns[0].kind in a.about])
        turns = itertools.cycle(adjectives)
        for noun in draw.shuffled(nouns):
            for _ in range(len(adjectives) // _ONE_IN):
                held_out[noun, next(turns)] = None
    return tuple(held_out)


class Collocations:
    """The adjectives that each noun may be drawn with."""

    def __init__(self, held_out: Collection[Combination]) -> None:
        def fitting(noun: Noun, adjectives: Sequence[Adjective]) -> tuple[Adjective, ...]:
            return tuple(
                a
                for a in adjectives
                if noun.kind in a.about
                and (noun, a) not in held_out
                and (noun.en, a.en) not in lexicon.MISLEADING
            )

        def menu(adjectives: Sequence[Adjective]) -> Menu:
            return {noun: fitting(noun, adjectives) for noun in lexicon.NOUNS}

        self.decisive = menu(DECISIVE)
        """What *because it was too* may say of it."""
        self.stated = menu([a for a in DECISIVE + NEUTRAL if a not in lexicon.ONLY_ATTRIBUTIVE])
        """What may follow *is*."""
        self.before = menu([a for a in NEUTRAL + DECISIVE if a.before])
        """What may stand before the French noun."""
        self.after = menu([a for a in NEUTRAL + DECISIVE if not a.before])
        """What may stand after it."""


I = Fixed((simple("i", "je"),), "je")  # noqa: E741
"""A man, in this world."""
WE = Fixed((simple("we", "nous"),), "nous")
HE = Fixed((simple("he", "il"),))
SHE = Fixed((simple("she", "elle"),), feminine=True)
_SPEAKERS = (I, I, WE, WE, HE, SHE)  # each is drawn as often as it is written here


class Parts:
    """Draws from the words that go together."""

    def __init__(self, draw: StableRandom, held_out: Collection[Combination] = ()) -> None:
        self.draw = draw
        self.collocations = Collocations({*held_out})

    def noun_phrase(
        self,
        nouns: Sequence[Noun],
        *,
        plural: bool | None = None,
        adorned: float = 0.25,
        definite: bool = False,
        other_than: Nominal | None = None,
    ) -> NounPhrase:
        """A noun with its determiner and, with probability ``adorned``, adjectives."""
        draw = self.draw
        noun = draw.one(nouns)
        while isinstance(other_than, NounPhrase) and noun is other_than.noun:
            noun = draw.one(nouns)
        if plural is None:
            plural = draw.chance(0.25)
        before = after = None
        if draw.chance(adorned):
            if draw.chance(0.6):
                after = draw.one(self.collocations.after[noun])
            if after is None or draw.chance(0.12):
                before = draw.one(self.collocations.before[noun])
        if noun.owned and draw.chance(0.14):
            determiner = draw.one(lexicon.OWNED)
        elif definite:
            determiner = draw.one(lexicon.DEFINITE)
        else:
            determiner = draw.one(lexicon.SEVERAL if plural else lexicon.ONE)
        return NounPhrase(noun, determiner, plural, before, after)

    def named(self, *, other_than: Nominal | None = None) -> Fixed:
        """A person by name."""
        somebody = named(self.draw.one(lexicon.NAMES))
        while somebody == other_than:
            somebody = named(self.draw.one(lexicon.NAMES))
        return somebody

    def two_named(self) -> Fixed:
        """*john and mary*."""
        first = self.named()
        return both(first, self.named(other_than=first))

    def person(self, *, adorned: float = 0.25) -> Nominal:
        """Somebody who acts: a name, a pronoun or a noun."""
        if self.draw.chance(0.3):
            return self.named()
        if self.draw.chance(0.5):
            return self.draw.one(_SPEAKERS)
        return self.noun_phrase(HUMANS, adorned=adorned)

    def animate(self, *, other_than: Nominal | None = None, adorned: float = 0.25) -> Nominal:
        """An animal or a human, by noun or by name."""
        if self.draw.chance(0.15):
            return self.named(other_than=other_than)
        nouns = HUMANS if self.draw.chance(0.35) else ANIMALS
        return self.noun_phrase(nouns, adorned=adorned, other_than=other_than)

    def verb(
        self, several: Sequence[lexicon.VerbForms], subject: Nominal, *, past: bool
    ) -> lexicon.VerbForms:
        """One of them that has this tense and is used in this person."""
        first_person = subject.person in ("je", "nous")
        verb = self.draw.one(several)
        while (past and not verb.en_past) or (first_person and verb not in lexicon.IN_FIRST_PERSON):
            verb = self.draw.one(several)
        return verb

    def action(
        self, subject: Nominal, *, past: bool, negated: bool = False, adorned: float = 0.25
    ) -> Action:
        """Something that the subject may do to somebody or something."""
        several, target = self._verbs_and_object(subject, adorned)
        if negated and isinstance(target, NounPhrase) and target.determiner is lexicon.SOME:
            target = NounPhrase(target.noun, lexicon.THE, True, target.before, target.after)
        return Action(self.verb(several, subject, past=past), past, negated, target)

    def _verbs_and_object(
        self, subject: Nominal, adorned: float
    ) -> tuple[Sequence[lexicon.VerbForms], Nominal]:
        """Some verbs, and what all of them may be done to."""
        draw = self.draw
        if subject.human and draw.chance(0.2):
            nouns = draw.one((HUMANS, ANIMALS))
            # definite, because *aimer des chats* is no French
            whom = self.noun_phrase(nouns, adorned=adorned, definite=True, other_than=subject)
            return lexicon.AMONG_PEOPLE, whom
        if subject.human and draw.chance(0.2):
            goods = draw.one((lexicon.LOADS, lexicon.LOADS, lexicon.PLACES))
            return lexicon.WITH_GOODS, self.noun_phrase(goods, adorned=adorned)
        if draw.chance(0.5):
            return lexicon.ON_ANIMATES, self.animate(other_than=subject, adorned=adorned)
        nouns = draw.one(THINGS)
        return lexicon.ON_THINGS[nouns[0].kind], self.noun_phrase(nouns, adorned=adorned)

    def where(self) -> Phrase:
        """*near the church*."""
        preposition = self.draw.one((lexicon.IN, lexicon.NEAR, lexicon.NEAR, lexicon.BEHIND))
        definite = self.draw.chance(0.8)
        plural = None if definite else False
        place = self.noun_phrase(lexicon.PLACES, plural=plural, adorned=0.0, definite=definite)
        return place.group(preposition=preposition)

    def company(self) -> Phrase:
        """*with my sister*."""
        who = self.noun_phrase(ANIMALS + lexicon.FAMILY, plural=False, adorned=0.0, definite=True)
        return who.group(preposition=lexicon.WITH)

    def adjuncts(self, *, past: bool) -> tuple[Phrase, ...]:
        """Sometimes a time, sometimes a place, mostly nothing."""
        if self.draw.chance(0.15):
            return (simple("yesterday", "hier") if past else simple("now", "maintenant"),)
        return (self.where(),) if self.draw.chance(0.12) else ()

    def errand(self, subject: Nominal, *, past: bool, more: float) -> Action:
        """What the subject does without an object; ``more``: how often place or company is told."""
        draw = self.draw
        negated = draw.chance(0.25)
        if draw.chance(0.2):
            place = self.noun_phrase(lexicon.GOALS, plural=False, adorned=0.0, definite=True)
            # *à cet hôtel* would sound odd
            determiner = lexicon.THE if place.determiner is lexicon.THIS else place.determiner
            goal = NounPhrase(place.noun, determiner).group(preposition=lexicon.TO)
            return Action(lexicon.GO, past, negated, None, (goal,))
        several = lexicon.ALONE + lexicon.PEOPLE_ALONE if subject.human else lexicon.ALONE
        adjuncts = (draw.one((self.where, self.company))(),) if draw.chance(more) else ()
        return Action(self.verb(several, subject, past=past), past, negated, None, adjuncts)
