"""The sentences of the lectures, each in the test set that it belongs to, never in training."""

from __future__ import annotations

from regard.data.sentences import groups, names, nouns, verbs
from regard.data.sentences.adjectives import DECISIVE
from regard.data.sentences.contrasts import UNSEEN_PAIR, Drawn
from regard.data.sentences.grammar import reasoned
from regard.data.sentences.nominals import Named, OnMap
from regard.data.sentences.parts import I
from regard.data.sentences.trees import Action, Clause, NounPhrase, Trade, pair


def pronouns() -> Drawn:
    """*the animal did not cross the street because it was too tired*, and *too wide*."""
    (animal,) = (n for n in nouns.ANIMALS if n.en == "animal")
    (street,) = (n for n in nouns.ROADS if n.en == "street")
    (tired,) = (a for a in DECISIVE if a.en == "tired")
    (wide,) = (a for a in DECISIVE if a.en == "wide")
    subject = NounPhrase(animal, nouns.THE)
    deed = Action(verbs.CROSS, True, True, NounPhrase(street, nouns.THE))
    tags = frozenset({UNSEEN_PAIR})
    return Drawn(
        (
            pair(reasoned(subject, deed, of_object=False, adjective=tired), tags=tags),
            pair(reasoned(subject, deed, of_object=True, adjective=wide), tags=tags),
        )
    )


def order() -> Drawn:
    """*john loves mary*, *mary loves john*."""
    john, mary = _named("john"), _named("mary")
    return Drawn(
        (
            pair(Clause(john, Action(verbs.LOVE, False, False, mary))),
            pair(Clause(mary, Action(verbs.LOVE, False, False, john))),
        )
    )


def others() -> list[Drawn]:
    """*jane visits africa in september*, *i am a student*."""
    (africa,) = (p for p in names.LANDS if p.en == "africa")
    (september,) = (m for m in names.MONTHS if m[0] == "september")
    (student,) = (p for p in names.PROFESSIONS if p.en == "student")
    visit = Action(verbs.VISIT, False, False, OnMap(africa), (groups.month_group(*september),))
    return [
        Drawn((pair(Clause(_named("jane"), visit)),)),
        Drawn((pair(Clause(I, Trade(student, False))),)),
    ]


def _named(text: str) -> Named:
    (name,) = (n for n in names.NAMES if n.text == text)
    return Named(name)
