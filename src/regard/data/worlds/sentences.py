"""The world ``sentences``: English and French sentence pairs, for training and for tests.

Test sets: ``test``; ``pronouns``, minimal pairs in which only the adjective tells what a pronoun
means; ``order``, the same words in another order; ``long``, longer than anything trained on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from regard.core.errors import ConfigError
from regard.core.registry import did_you_mean
from regard.data.records import Pair
from regard.data.worlds import lexicon, trees
from regard.data.worlds.drawing import Combination, I, withheld_combinations
from regard.data.worlds.grammar import Grammar, reasoned
from regard.data.worlds.lexicon import Adjective, Noun, ProperNoun, VerbForms
from regard.data.worlds.phrases import proper_group
from regard.data.worlds.stable_random import StableRandom
from regard.data.worlds.trees import Action, Clause, Nominal, NounPhrase, State, write_pair

E = TypeVar("E", Noun, Adjective, ProperNoun)

SPLITS = ("train", "valid", "test", "pronouns", "order", "long")
DIRECTIONS = ("en-fr", "fr-en")

LONGEST = 18
"""Words of the longest sentence outside ``long``, on either side; ``long`` begins above."""

_N_VALID = _N_TEST = 1_000
_N_PRONOUNS, _N_ORDER, _N_LONG = 500, 300, 300
_PATIENCE = 100  # draws for each sentence that is wanted
_PEOPLE = {name.text: trees.named(name) for name in lexicon.NAMES}
UNSEEN_PAIR = "unseen_pair"
"""Tag of a sentence whose antecedent training never showed with its adjective."""


class KnownSentences:
    """Every sentence of both languages that a world holds, with its one translation."""

    def __init__(self) -> None:
        self._target: dict[str, str] = {}
        self._source: dict[str, str] = {}
        self._ambiguous: set[tuple[str, str]] = set()

    def is_new(self, pairs: Iterable[Pair]) -> bool:
        """Whether neither side of any of them is known; notes what is known in another way."""
        new = True
        for pair in pairs:
            target, source = self._target.get(pair.source), self._source.get(pair.target)
            if target not in (None, pair.target) or source not in (None, pair.source):
                self._ambiguous |= {("source", pair.source), ("target", pair.target)}
            new = new and target is None and source is None
        return new

    def enter(self, pairs: Iterable[Pair]) -> None:
        """Remember them."""
        for one in pairs:
            self._target[one.source] = one.target
            self._source[one.target] = one.source

    def is_clear(self, pairs: Iterable[Pair]) -> bool:
        """Whether none of them was ever met in another way."""
        sides = (side for one in pairs for side in (("source", one.source), ("target", one.target)))
        return self._ambiguous.isdisjoint(sides)


@dataclass(frozen=True, slots=True)
class Drawn:
    """One sentence, or several that only make sense beside each other."""

    pairs: tuple[Pair, ...]
    combinations: tuple[Combination, ...] = ()
    """The nouns that a pronoun means in them, each with what is said of it."""


def _entry(entries: Iterable[E], en: str) -> E:
    """The entry of the lexicon for an English word."""
    (found,) = (entry for entry in entries if entry.en == en)
    return found


def lecture_pronouns() -> Drawn:
    """*the animal did not cross the street because it was too tired*, and *too wide*."""
    subject = NounPhrase(_entry(lexicon.ANIMALS, "animal"), lexicon.THE)
    street = NounPhrase(_entry(lexicon.ROADS, "street"), lexicon.THE)
    deed = Action(lexicon.CROSS, True, True, street)
    adjectives = [_entry(lexicon.DECISIVE, en) for en in ("tired", "wide")]
    return _minimal_pair(subject, deed, adjectives, frozenset({UNSEEN_PAIR}))


def _minimal_pair(
    subject: NounPhrase, deed: Action, adjectives: Sequence[Adjective], tags: frozenset[str]
) -> Drawn:
    """Two sentences in which only the adjective differs, and with it what *it* means."""
    of_subject, of_object = adjectives
    first = reasoned(subject, deed, of_object=False, adjective=of_subject)
    second = reasoned(subject, deed, of_object=True, adjective=of_object)
    return Drawn((write_pair(first, tags=tags), write_pair(second, tags=tags)))


def _both_orders(
    first: Nominal, second: Nominal, verb: VerbForms, past: bool, negated: bool
) -> Drawn:
    """Two sentences of the same words, in either language, in another order."""
    return Drawn(
        (
            write_pair(Clause(first, Action(verb, past, negated, second))),
            write_pair(Clause(second, Action(verb, past, negated, first))),
        )
    )


def lecture_order() -> Drawn:
    """*john loves mary*, *mary loves john*."""
    return _both_orders(_PEOPLE["john"], _PEOPLE["mary"], lexicon.LOVE, False, False)


def other_lectures() -> list[Drawn]:
    """*jane visits africa in september*, *i am a student*."""
    africa, september = _entry(lexicon.LANDS, "africa"), _entry(lexicon.MONTHS, "september")
    when = (proper_group(september, "in"),)
    visit = Action(lexicon.VISIT, False, False, trees.on_map(africa), when)
    student = State(_entry(lexicon.PROFESSIONS, "student"), False)
    clauses = (Clause(_PEOPLE["jane"], visit), Clause(I, student))
    return [Drawn((write_pair(clause),)) for clause in clauses]


def build_sentences(
    direction: str = "en-fr", *, seed: int = 0, n_train: int = 60_000
) -> Mapping[str, tuple[Pair, ...]]:
    """The splits of a seed, the same on every machine; none shares a sentence with another.

    No sentence comes twice. ``seed`` belongs to the world, not to a training. With few training
    pairs the test sets are smaller too, for they hold no word that training does not.
    """
    if direction not in DIRECTIONS:
        hint = did_you_mean(direction, DIRECTIONS)
        raise ConfigError(f"unknown direction {direction!r}{hint}; known: {', '.join(DIRECTIONS)}")
    if n_train < 1:
        raise ConfigError(f"n_train must be at least 1, got {n_train}")
    splits = _Builder(seed).splits(n_train)
    if direction == "fr-en":
        splits = {name: tuple(p.reversed() for p in pairs) for name, pairs in splits.items()}
    return splits


class _Builder(Grammar):
    """Draws the splits one after the other from one generator."""

    def __init__(self, seed: int) -> None:
        draw = StableRandom(seed)
        self._held_out = withheld_combinations(draw)
        super().__init__(draw, self._held_out)
        self._known = KnownSentences()

    def splits(self, n_train: int) -> dict[str, tuple[Pair, ...]]:
        """Every split by name.

        ``order`` is drawn before training, which would else use up the short sentences, and
        ``pronouns`` after it, because half of it repeats combinations that training shows.
        """
        pronouns, order, test = [lecture_pronouns()], [lecture_order()], other_lectures()
        for drawn in (*pronouns, *order, *test):
            self._known.enter(drawn.pairs)
        self._fill(order, _N_ORDER // 2, self._reordered)
        self._fill(test, _N_TEST, self._ordinary)
        valid = self._fill([], _N_VALID, self._ordinary)
        train = self._fill([], n_train, self._ordinary)
        shown = tuple(dict.fromkeys(c for drawn in train for c in drawn.combinations))
        unseen, seen = frozenset({UNSEEN_PAIR}), frozenset[str]()
        self._fill(pronouns, _N_PRONOUNS // 4, lambda: self._minimal(self._held_out, unseen))
        self._fill(pronouns, _N_PRONOUNS // 2, lambda: self._minimal(shown, seen))
        long = self._fill([], _N_LONG, self._long)
        known = {word for drawn in train for word in _words(drawn)}
        tests = {"valid": valid, "test": test, "pronouns": pronouns, "order": order, "long": long}
        covered = {
            name: [drawn for drawn in several if known.issuperset(_words(drawn))]
            for name, several in tests.items()
        }
        return {name: self._clear(several) for name, several in {"train": train, **covered}.items()}

    def _fill(self, several: list[Drawn], n: int, draw: Callable[[], Drawn | None]) -> list[Drawn]:
        """Draw what is new until there are ``n``, or until nothing new seems to be left."""
        for _ in range(_PATIENCE * n):
            if len(several) >= n:
                break
            drawn = draw()
            if drawn and self._known.is_new(drawn.pairs):
                self._known.enter(drawn.pairs)
                several.append(drawn)
        return several

    def _ordinary(self) -> Drawn | None:
        """One sentence of any kind."""
        sentence = self.sentence()
        pair = write_pair(*sentence)
        if max(_lengths(pair)) > LONGEST:
            return None
        combinations = tuple(
            (clause.antecedent.noun, clause.reason.adjective)
            for clause in sentence
            if clause.reason and isinstance(clause.antecedent, NounPhrase)
        )
        return Drawn((pair,), combinations)

    def _minimal(self, combinations: Sequence[Combination], tags: frozenset[str]) -> Drawn | None:
        """A minimal pair about an animal and a thing.

        The nouns are of different gender, so that the French pronoun differs too; nothing when the
        combinations drawn are of the same gender.
        """
        of_animals = [c for c in combinations if c[0].kind == "animal"]
        of_things = [c for c in combinations if c[0].kind not in ("animal", "human")]
        if not (of_animals and of_things):
            return None
        animal, of_animal = self.draw.one(of_animals)
        thing, of_thing = self.draw.one(of_things)
        if animal.feminine == thing.feminine:
            return None
        subject = self.noun_phrase((animal,), plural=False, adorned=0.0, definite=True)
        target = self.noun_phrase((thing,), plural=False, adorned=0.0, definite=True)
        return _minimal_pair(subject, self.deed(target), (of_animal, of_thing), tags)

    def _reordered(self) -> Drawn:
        """Two sentences of the same words in another order."""
        draw = self.draw
        first: Nominal
        second: Nominal
        several: Sequence[VerbForms] = lexicon.ON_ANIMATES
        if draw.chance(0.4):
            first = self.named()
            second = self.named(other_than=first)
            several = lexicon.AMONG_PEOPLE + lexicon.ON_ANIMATES
        else:
            plural, nouns = draw.chance(0.2), lexicon.ANIMALS + lexicon.HUMANS
            first = self.noun_phrase(nouns, plural=plural, adorned=0.1, definite=True)
            second = self.noun_phrase(
                nouns, plural=plural, adorned=0.1, definite=True, other_than=first
            )
        past, negated = draw.chance(0.5), draw.chance(0.25)
        verb = self.verb(several, first, past=past)
        return _both_orders(first, second, verb, past, negated)

    def _long(self) -> Drawn | None:
        """One sentence of two long clauses, each of a kind that training shows alone."""
        first = self.by_actor(self.draw.chance(0.5))
        pair = write_pair(first, *self.reasoned())
        return Drawn((pair,)) if min(_lengths(pair)) > LONGEST else None

    def _clear(self, several: Iterable[Drawn]) -> tuple[Pair, ...]:
        """The pairs that have one translation in either direction."""
        return tuple(
            pair for drawn in several if self._known.is_clear(drawn.pairs) for pair in drawn.pairs
        )


def _lengths(pair: Pair) -> tuple[int, int]:
    """How many words each side has; every space and every apostrophe ends one."""
    target = pair.target
    return pair.source.count(" ") + 1, target.count(" ") + target.count("'") + 1


def _words(drawn: Drawn) -> list[str]:
    """The words of both languages, marked apart; ``words.split`` would take its time."""
    return [
        mark + word
        for pair in drawn.pairs
        for mark, sentence in (("en ", pair.source), ("fr ", pair.target))
        for word in sentence.replace("'", "' ").split(" ")
    ]
