"""Toy tasks: sequences of symbols that a model can learn in seconds, with their gold alignment.

copy     ``c a b`` → ``c a b``
reverse  ``c a b`` → ``b a c``
sort     ``c a b`` → ``a b c``
recall   ``fact d k a c a ask d`` → ``k``: a fact, filler, a question about the fact
"""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping, Sequence

from regard.core.errors import ConfigError
from regard.core.registry import Registry
from regard.data.records import Links, Pair
from regard.data.worlds.stable_random import StableRandom

Generator = Callable[[StableRandom, Sequence[str], int], Pair]
"""A generator, the symbols in their order, and the most of them → one example."""

TOYS: Registry[Generator] = Registry("toy task")

_LETTERS = tuple(string.ascii_lowercase)
_TWO_LETTERS = tuple(first + second for first in _LETTERS for second in _LETTERS)
_PATIENCE = 50  # draws for each example that is wanted


def build_toy(
    task: str,
    *,
    seed: int = 0,
    n_train: int = 20_000,
    n_test: int = 500,
    max_symbols: int = 10,
    n_symbols: int = 26,
) -> Mapping[str, tuple[Pair, ...]]:
    """The splits ``train``, ``valid`` and ``test``, which share no source.

    ``valid`` is as large as ``test``. A source has 1 to ``max_symbols`` symbols; for ``recall``
    that is the distance, 0 to ``max_symbols`` symbols of filler.
    """
    generate = TOYS[task]
    sizes = {"n_train": n_train, "n_test": n_test, "max_symbols": max_symbols}
    problems = [f"{name}={size} must be at least 1" for name, size in sizes.items() if size < 1]
    if n_symbols < 2:
        problems.append(f"n_symbols={n_symbols} must be at least 2")
    if n_symbols > len(_TWO_LETTERS):
        problems.append(f"n_symbols={n_symbols} must be at most {len(_TWO_LETTERS)}")
    if problems:
        raise ConfigError("; ".join(problems))
    draw = StableRandom(seed)
    n = n_train + 2 * n_test
    letters = _LETTERS if n_symbols <= len(_LETTERS) else _TWO_LETTERS
    found: dict[str, Pair] = {}  # by source
    for _ in range(_PATIENCE * n):
        if len(found) == n:
            break
        pair = generate(draw, letters[:n_symbols], max_symbols)
        found.setdefault(pair.source, pair)
    if len(found) < n:
        raise ConfigError(
            f"{task} needs {n} different sources (n_train + 2 n_test), but about {len(found)} "
            f"exist with max_symbols={max_symbols} and n_symbols={n_symbols}; raise one of these "
            f"or ask for fewer examples"
        )
    # Shuffled, lest the few short sources all fall into the split that was drawn first.
    pairs = draw.shuffled([*found.values()])
    return {
        "train": tuple(pairs[2 * n_test :]),
        "valid": tuple(pairs[:n_test]),
        "test": tuple(pairs[n_test : 2 * n_test]),
    }


def _drawn(draw: StableRandom, symbols: Sequence[str], n: int) -> list[str]:
    return [draw.one(symbols) for _ in range(n)]


def _rearranged(source: Sequence[str], order: Sequence[int]) -> Pair:
    """The example whose target holds ``source[order[0]]``, ``source[order[1]]``, …"""
    alignment: Links = tuple(sorted((i, j) for j, i in enumerate(order)))
    target = " ".join(source[i] for i in order)
    return Pair(source=" ".join(source), target=target, alignment=alignment)


@TOYS.add("copy")
def copy(draw: StableRandom, symbols: Sequence[str], max_symbols: int) -> Pair:
    """The same symbols again."""
    source = _drawn(draw, symbols, draw.one(range(1, max_symbols + 1)))
    return _rearranged(source, range(len(source)))


@TOYS.add("reverse")
def reverse(draw: StableRandom, symbols: Sequence[str], max_symbols: int) -> Pair:
    """The symbols from the last to the first."""
    source = _drawn(draw, symbols, draw.one(range(1, max_symbols + 1)))
    return _rearranged(source, range(len(source) - 1, -1, -1))


@TOYS.add("sort")
def sort(draw: StableRandom, symbols: Sequence[str], max_symbols: int) -> Pair:
    """The symbols in alphabetical order; equal ones keep theirs in the alignment."""
    source = _drawn(draw, symbols, draw.one(range(1, max_symbols + 1)))
    return _rearranged(source, sorted(range(len(source)), key=source.__getitem__))


@TOYS.add("recall")
def recall(draw: StableRandom, symbols: Sequence[str], max_symbols: int) -> Pair:
    """``fact KEY VALUE``, filler in which the key does not occur, ``ask KEY`` → ``VALUE``."""
    key, value = draw.one(symbols), draw.one(symbols)
    others = [symbol for symbol in symbols if symbol != key]
    filler = _drawn(draw, others, draw.one(range(max_symbols + 1)))
    source = ("fact", key, value, *filler, "ask", key)
    return Pair(source=" ".join(source), target=value, alignment=((2, 0),))
