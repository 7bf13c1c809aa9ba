"""Sentences that belong together, drawn together: a test set holds all of them or none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from regard.data.pairs import Pair
from regard.data.sentences import nouns, verbs
from regard.data.sentences.grammar import Grammar, reasoned
from regard.data.sentences.lexicon import Verb
from regard.data.sentences.menus import Combination
from regard.data.sentences.nominals import Nominal
from regard.data.sentences.parts import Parts
from regard.data.sentences.trees import Action, Clause, NounPhrase, pair

UNSEEN_PAIR = "unseen_pair"
"""Tag of a sentence whose antecedent training never showed with its adjective."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """One sentence, or several that only make sense beside each other."""

    pairs: tuple[Pair, ...]
    combinations: tuple[Combination, ...] = ()
    """The nouns that a pronoun means in them, each with what is said of it."""


def ordinary(grammar: Grammar) -> Drawn:
    """One sentence of any kind."""
    sentence = grammar.sentence()
    reasons = [clause.reason for clause in sentence if clause.reason]
    return Drawn(
        (pair(*sentence),),
        tuple(
            (reason.antecedent.noun, reason.state.adjective)
            for reason in reasons
            if isinstance(reason.antecedent, NounPhrase)
        ),
    )


def pronouns(
    parts: Parts,
    grammar: Grammar,
    *,
    of_animals: Sequence[Combination],
    of_things: Sequence[Combination],
    tags: frozenset[str] = frozenset(),
) -> Drawn | None:
    """A minimal pair: only the adjective differs, and with it what *it* means.

    The nouns are of different gender, so that the French pronoun differs too; nothing when the
    combinations drawn are of the same gender.
    """
    animal, of_animal = parts.draw.one(of_animals)
    thing, of_thing = parts.draw.one(of_things)
    if animal.feminine == thing.feminine:
        return None
    subject = parts.noun_phrase((animal,), plural=False, adorned=0.0, definite=True)
    target = parts.noun_phrase((thing,), plural=False, adorned=0.0, definite=True)
    deed = grammar.deed(target)
    return Drawn(
        (
            pair(reasoned(subject, deed, of_object=False, adjective=of_animal), tags=tags),
            pair(reasoned(subject, deed, of_object=True, adjective=of_thing), tags=tags),
        ),
        ((animal, of_animal), (thing, of_thing)),
    )


def order(parts: Parts) -> Drawn:
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
        first = parts.noun_phrase(animates, plural=plural, adorned=0.1, definite=True)
        second = parts.noun_phrase(
            animates, plural=plural, adorned=0.1, definite=True, other_than=first
        )
        several = verbs.ON_ANIMATES
    past, negated = draw.chance(0.5), draw.chance(0.25)
    verb = parts.verb(several, first, past=past)
    return Drawn(
        (
            pair(Clause(first, Action(verb, past, negated, second))),
            pair(Clause(second, Action(verb, past, negated, first))),
        )
    )


def long(parts: Parts, grammar: Grammar) -> Drawn:
    """One sentence of two long clauses, each of a kind that training shows alone."""
    return Drawn((pair(grammar.by_actor(parts.draw.chance(0.5)), *grammar.reasoned()),))
