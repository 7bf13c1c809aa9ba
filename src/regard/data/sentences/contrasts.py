"""The sentences of the special test sets, each drawn with the one it is to be compared with."""

from __future__ import annotations

from collections.abc import Sequence

from regard.data.pairs import Pair
from regard.data.sentences import nouns, verbs
from regard.data.sentences.grammar import Grammar, reasoned
from regard.data.sentences.lexicon import Verb
from regard.data.sentences.menus import Combination
from regard.data.sentences.parts import Parts
from regard.data.sentences.trees import Action, Clause, Nominal, pair

UNSEEN_PAIR = "unseen_pair"
"""Tag of a sentence whose antecedent training never showed with its adjective."""

Members = tuple[Pair, ...]
"""Sentences that stay together in a test set."""


def pronouns(
    parts: Parts,
    grammar: Grammar,
    *,
    of_animals: Sequence[Combination],
    of_things: Sequence[Combination],
    tags: frozenset[str] = frozenset(),
) -> Members:
    """A minimal pair: only the adjective differs, and with it what *it* means.

    The nouns are of different gender, so that the French pronoun differs too; nothing when the
    combinations drawn are of the same gender.
    """
    animal, of_animal = parts.draw.one(of_animals)
    thing, of_thing = parts.draw.one(of_things)
    if animal.feminine == thing.feminine:
        return ()
    subject = parts.noun_phrase((animal,), plural=False, adorned=0.0, definite=True)
    target = parts.noun_phrase((thing,), plural=False, adorned=0.0, definite=True)
    deed = grammar.deed(target)
    return (
        pair(reasoned(subject, deed, of_object=False, adjective=of_animal), tags=tags),
        pair(reasoned(subject, deed, of_object=True, adjective=of_thing), tags=tags),
    )


def order(parts: Parts) -> Members:
    """Two sentences of the same words, in either language, in another order."""
    draw = parts.draw
    first: Nominal
    second: Nominal
    several: Sequence[Verb]
    if draw.chance(0.4):
        first = parts.named()
        second = parts.named(other_than=first)
        several = verbs.AMONG_PEOPLE + verbs.ON_ANIMATES
    else:
        plural = draw.chance(0.2)
        animates = nouns.ANIMALS + nouns.HUMANS
        first = parts.noun_phrase(animates, plural=plural, adorned=0.2, definite=True)
        second = parts.noun_phrase(
            animates, plural=plural, adorned=0.2, definite=True, other_than=first
        )
        several = verbs.ON_ANIMATES
    past, negated = draw.chance(0.5), draw.chance(0.25)
    verb = parts.verb(several, first, past=past)
    return (
        pair(Clause(first, Action(verb, past, negated, second))),
        pair(Clause(second, Action(verb, past, negated, first))),
    )


def long(parts: Parts, grammar: Grammar) -> Members:
    """One sentence of several clauses, each of a kind that training shows alone."""
    clauses = [grammar.by_actor(parts.draw.chance(0.5)), *grammar.reasoned()]
    if parts.draw.chance(0.3):
        clauses.insert(0, *grammar.alone())
    return (pair(*clauses),)
