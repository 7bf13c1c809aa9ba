"""The data a recipe asks for, whatever it is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from typing import Literal

from regard.data import toys
from regard.data.corpora import read_splits
from regard.data.examples import Table, encode_table, stored_table, within
from regard.data.pairs import Pair
from regard.data.sentences import world as sentences
from regard.data.settings import DataSettings
from regard.runs.evaluation import test_sets_of
from regard.runs.tokenizers import Tokenizers

Splits = Mapping[str, Sequence[Pair]]
Rule = Literal["drop", "truncate"]


@dataclass(frozen=True, slots=True)
class Data:
    """Splits by name, and what a user should know about how they came about."""

    splits: Splits
    notes: tuple[str, ...] = ()

    @property
    def test_sets(self) -> list[str]:
        """As ``test_sets_of``."""
        return test_sets_of(self.splits)


def load_data(settings: DataSettings) -> Data:
    """A built-in world, or files."""
    if settings.world is None:
        return _from_files(settings)
    size = {} if settings.n_train is None else {"n_train": settings.n_train}
    seed = settings.world_seed
    if settings.world == "sentences":
        return Data(sentences.build(settings.direction, seed=seed, **size).splits)
    return Data(toys.build(settings.world, seed=seed, **size))


@dataclass(frozen=True, slots=True)
class Encoded:
    """Pairs that fit, their ids, and a note on those that do not fit."""

    pairs: Sequence[Pair]
    table: Table
    notes: tuple[str, ...]


def encode_within(
    pairs: Sequence[Pair],
    tokenizers: Tokenizers,
    *,
    max_len: int,
    rule: Rule,
    name: str,
    cache: Path | None = None,
) -> Encoded:
    """Pairs as ids, of at most ``max_len`` positions a side; kept in files if there is a cache."""
    sides = tokenizers.source, tokenizers.target
    whole = encode_table(pairs, *sides) if cache is None else stored_table(pairs, *sides, cache)
    table, n_long = within(whole, max_len, rule)
    if n_long and rule == "drop":
        pairs = list(compress(pairs, whole.fits(max_len)))
    verb = "cut to" if rule == "truncate" else "left out, being longer than"
    note = f"{name}: {n_long} pairs {verb} max_len={max_len} tokens"
    return Encoded(pairs, table, (note,) if n_long else ())


def _from_files(settings: DataSettings) -> Data:
    corpora = read_splits(settings)
    notes = tuple(
        f"{name}: {corpus.n_empty} lines skipped, being empty on one side or both"
        for name, corpus in corpora.items()
        if corpus.n_empty
    )
    return Data({name: corpus.pairs for name, corpus in corpora.items()}, notes)
