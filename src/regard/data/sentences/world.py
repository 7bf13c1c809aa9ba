"""The world of sentences: its training pairs and its test sets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from regard.core.errors import ConfigError
from regard.core.registry import did_you_mean
from regard.data.pairs import Pair
from regard.data.sentences import contrasts, lectures
from regard.data.sentences.contrasts import UNSEEN_PAIR, Members
from regard.data.sentences.grammar import Grammar
from regard.data.sentences.menus import Combination, Draw, Menus, hold_out
from regard.data.sentences.parts import Parts
from regard.data.sentences.trees import NounPhrase, pair

SPLITS = ("train", "valid", "test", "pronouns", "order", "long")
DIRECTIONS = ("en-fr", "fr-en")

LONGEST = 18
"""Words of the longest sentence outside ``long``, on either side; ``long`` begins above."""

_N_VALID = _N_TEST = 1000
_N_PRONOUNS = 500
_N_ORDER = 300
_N_LONG = 300
_PATIENCE = 100  # draws for each sentence that is wanted


@dataclass(frozen=True)
class World:
    """All splits. No sentence of either language is in two of them, nor twice in one."""

    splits: Mapping[str, tuple[Pair, ...]]


def build(direction: str = "en-fr", *, seed: int = 0, n_train: int = 60_000) -> World:
    """The world of this seed, the same on every machine.

    ``seed`` belongs to the world, not to a training. With few training pairs the test sets are
    smaller too, for they hold no word that training does not.
    """
    if direction not in DIRECTIONS:
        hint = did_you_mean(direction, DIRECTIONS)
        raise ConfigError(f"unknown direction {direction!r}{hint}; known: {', '.join(DIRECTIONS)}")
    if n_train < 1:
        raise ConfigError(f"n_train must be at least 1, got {n_train}")
    splits = _Builder(seed).splits(n_train)
    if direction == "fr-en":
        splits = {name: tuple(p.reversed() for p in pairs) for name, pairs in splits.items()}
    return World(splits)


class _Ledger:
    """What has been said already, so that nothing is said twice or in two ways."""

    def __init__(self) -> None:
        self._target: dict[str, str] = {}
        self._source: dict[str, str] = {}
        self._ambiguous: set[str] = set()

    def is_new(self, members: Iterable[Pair]) -> bool:
        """Whether neither side of any of them was said; notes those said in another way."""
        return not sum(not self._is_new(p) for p in members)  # a sum, for it looks at every one

    def _is_new(self, pair: Pair) -> bool:
        target = self._target.get(pair.source)
        source = self._source.get(pair.target)
        if target not in (None, pair.target) or source not in (None, pair.source):
            self._ambiguous.update(("en " + pair.source, "fr " + pair.target))
        return target is None and source is None

    def enter(self, members: Iterable[Pair]) -> None:
        """Remember them as said."""
        for p in members:
            self._target[p.source] = p.target
            self._source[p.target] = p.source

    def is_clear(self, members: Iterable[Pair]) -> bool:
        """Whether none of them was ever said in another way."""
        return not self._ambiguous or not any(
            "en " + p.source in self._ambiguous or "fr " + p.target in self._ambiguous
            for p in members
        )


class _Builder:
    """Draws the splits one after the other from one generator."""

    def __init__(self, seed: int) -> None:
        draw = Draw(seed)
        self._held_out = hold_out(draw)
        self._parts = Parts(draw, Menus(set(self._held_out)))
        self._grammar = Grammar(self._parts)
        self._ledger = _Ledger()
        self._shown: dict[Combination, None] = {}

    def splits(self, n_train: int) -> dict[str, tuple[Pair, ...]]:
        """Every split by name.

        ``order`` is drawn before training, which would else use up the short sentences, and
        ``pronouns`` after it, because half of it repeats combinations that training shows.
        """
        pronouns, order = [lectures.pronouns()], [lectures.order()]
        test: list[Members] = [(lectures.africa(),), (lectures.student(),)]
        for members in (*pronouns, *order, *test):
            self._ledger.enter(members)
        self._fill(order, _N_ORDER // 2, lambda: contrasts.order(self._parts))
        self._fill(test, _N_TEST, self._ordinary)
        valid = self._fill([], _N_VALID, self._ordinary)
        self._shown.clear()
        train = self._fill([], n_train, self._ordinary)
        self._fill(pronouns, _N_PRONOUNS // 4, self._unseen)
        self._fill(pronouns, _N_PRONOUNS // 2, self._seen)
        long = self._fill([], _N_LONG, self._long)
        known = {word for members in train for word in _words(members)}
        tests = {"valid": valid, "test": test, "pronouns": pronouns, "order": order, "long": long}
        kept = {name: self._kept(groups, known) for name, groups in tests.items()}
        return {"train": self._kept(train, known), **kept}

    def _fill(self, groups: list[Members], n: int, draw: Callable[[], Members]) -> list[Members]:
        """Draw what is new until there are ``n``, or until nothing new seems to be left."""
        for _ in range(_PATIENCE * n):
            if len(groups) >= n:
                break
            members = draw()
            if members and self._ledger.is_new(members):
                self._ledger.enter(members)
                groups.append(members)
        return groups

    def _ordinary(self) -> Members:
        sentence = self._grammar.sentence()
        members = (pair(*sentence),)
        if max(_lengths(members[0])) > LONGEST:
            return ()
        for clause in sentence:
            if clause.reason and isinstance(clause.reason.antecedent, NounPhrase):
                combination = (clause.reason.antecedent.noun, clause.reason.state.adjective)
                self._shown[combination] = None
        return members

    def _seen(self) -> Members:
        return self._minimal_pair(tuple(self._shown), frozenset())

    def _unseen(self) -> Members:
        return self._minimal_pair(self._held_out, frozenset({UNSEEN_PAIR}))

    def _minimal_pair(self, combinations: Sequence[Combination], tags: frozenset[str]) -> Members:
        of_animals = [c for c in combinations if c[0].kind == "animal"]
        of_things = [c for c in combinations if c[0].kind not in ("animal", "human")]
        if not (of_animals and of_things):
            return ()
        return contrasts.pronouns(
            self._parts, self._grammar, of_animals=of_animals, of_things=of_things, tags=tags
        )

    def _long(self) -> Members:
        members = contrasts.long(self._parts, self._grammar)
        return members if min(_lengths(members[0])) > LONGEST else ()

    def _kept(self, groups: Iterable[Members], known: set[str]) -> tuple[Pair, ...]:
        """The pairs of the groups that are clear and hold no word that training does not."""
        return tuple(
            p
            for members in groups
            if self._ledger.is_clear(members) and known.issuperset(_words(members))
            for p in members
        )


def _lengths(pair: Pair) -> tuple[int, int]:
    """How many words each side has; every space and every apostrophe ends one."""
    target = pair.target
    return pair.source.count(" ") + 1, target.count(" ") + target.count("'") + 1


def _words(members: Members) -> list[str]:
    """The words of both languages, marked apart; ``words.split`` would take its time."""
    return [
        mark + word
        for p in members
        for mark, sentence in (("en ", p.source), ("fr ", p.target))
        for word in sentence.replace("'", "' ").split(" ")
    ]
