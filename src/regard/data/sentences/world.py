"""The world of sentences: its training pairs and its test sets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from regard.core.errors import ConfigError
from regard.core.registry import did_you_mean
from regard.data.draw import Draw
from regard.data.pairs import Pair
from regard.data.sentences import contrasts, lectures
from regard.data.sentences.contrasts import UNSEEN_PAIR, Drawn
from regard.data.sentences.grammar import Grammar
from regard.data.sentences.ledger import Ledger
from regard.data.sentences.menus import Combination, Menus, hold_out
from regard.data.sentences.parts import Parts

SPLITS = ("train", "valid", "test", "pronouns", "order", "long")
DIRECTIONS = ("en-fr", "fr-en")

LONGEST = 18
"""Words of the longest sentence outside ``long``, on either side; ``long`` begins above."""

_N_VALID = _N_TEST = 1_000
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


class _Builder:
    """Draws the splits one after the other from one generator."""

    def __init__(self, seed: int) -> None:
        draw = Draw(seed)
        self._held_out = hold_out(draw)
        self._parts = Parts(draw, Menus(set(self._held_out)))
        self._grammar = Grammar(self._parts)
        self._ledger = Ledger()

    def splits(self, n_train: int) -> dict[str, tuple[Pair, ...]]:
        """Every split by name.

        ``order`` is drawn before training, which would else use up the short sentences, and
        ``pronouns`` after it, because half of it repeats combinations that training shows.
        """
        pronouns, order, test = [lectures.pronouns()], [lectures.order()], lectures.others()
        for drawn in (*pronouns, *order, *test):
            self._ledger.enter(drawn.pairs)
        self._fill(order, _N_ORDER // 2, lambda: contrasts.order(self._parts))
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
            if drawn and self._ledger.is_new(drawn.pairs):
                self._ledger.enter(drawn.pairs)
                several.append(drawn)
        return several

    def _ordinary(self) -> Drawn | None:
        drawn = contrasts.ordinary(self._grammar)
        return drawn if max(_lengths(drawn.pairs[0])) <= LONGEST else None

    def _minimal(self, combinations: Sequence[Combination], tags: frozenset[str]) -> Drawn | None:
        of_animals = [c for c in combinations if c[0].kind == "animal"]
        of_things = [c for c in combinations if c[0].kind not in ("animal", "human")]
        if not (of_animals and of_things):
            return None
        return contrasts.pronouns(
            self._parts, self._grammar, of_animals=of_animals, of_things=of_things, tags=tags
        )

    def _long(self) -> Drawn | None:
        drawn = contrasts.long(self._parts, self._grammar)
        return drawn if min(_lengths(drawn.pairs[0])) > LONGEST else None

    def _clear(self, several: Iterable[Drawn]) -> tuple[Pair, ...]:
        """The pairs that have one translation in either direction."""
        return tuple(
            pair for drawn in several if self._ledger.is_clear(drawn.pairs) for pair in drawn.pairs
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
