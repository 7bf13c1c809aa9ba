"""The data a recipe asks for, whatever it is made of: splits by name, as records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from typing import Literal, TypeVar

from regard.checkpoints.run_folder import RunFolder
from regard.core.errors import ConfigError, DataError
from regard.core.registry import did_you_mean
from regard.data.corpora import Wanted
from regard.data.examples import Table, encode_table, stored_table, within
from regard.data.lines import present
from regard.data.records import Labelled, Pair, Question
from regard.data.settings import DataSettings
from regard.data.splits import read_labelled_splits, read_pair_splits, read_question_splits
from regard.data.worlds.registry import world_records
from regard.tasks.opening import Tokenizers

T = TypeVar("T")


def split_of(splits: Mapping[str, T], name: str, *, remedy: str = "") -> T:
    """The split of this name; a wrong one is told, with those there are."""
    if name not in splits:
        known, hint = ", ".join(splits), did_you_mean(name, splits)
        raise ConfigError(f"the run's data has no split {name!r}{hint}; it has {known}{remedy}")
    return splits[name]


def test_sets_of(splits: Iterable[str]) -> list[str]:
    """The splits that neither train nor choose anything; ``valid`` where there are none."""
    return [name for name in splits if name not in ("train", "valid")] or ["valid"]


NOBODYS = ("train.txt", "train.tsv")
"""What the recipe of an imported run names; a file of that name may lie here by chance."""


def check_data(folder: RunFolder, data: DataSettings, remedy: str) -> None:
    """Refuse a run that has no data."""
    if not has_data(folder, data):
        raise DataError(f"the run {folder.path} was imported and has no data of its own; {remedy}")


def has_data(folder: RunFolder, data: DataSettings) -> bool:
    """Not so where a run was never trained here, and names files that are nowhere, or nobody's.

    Whoever names a world or a folder has data; what that lacks is told elsewhere.
    """
    if folder.metrics.exists() or data.world is not None or data.folder is not None:
        return True
    files = [data.train] if isinstance(data.train, str) else data.train or ()
    return any(present(Path(name)) for name in files if name not in NOBODYS)


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
    return Data(world_records(settings, "pairs"))


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
    corpora = read_pair_splits(settings)
    notes = tuple(note for name, corpus in corpora.items() for note in corpus.notes(name))
    return Data({name: corpus.examples for name, corpus in corpora.items()}, notes)


@dataclass(frozen=True, slots=True)
class LabelledData:
    """Splits by name, and what a user should know about how they came about."""

    splits: Mapping[str, Sequence[Labelled]]
    notes: tuple[str, ...] = ()

    @property
    def test_sets(self) -> list[str]:
        """As ``test_sets_of``."""
        return test_sets_of(self.splits)

    def split(self, name: str) -> Sequence[Labelled]:
        """One of them; a wrong name is told."""
        return split_of(self.splits, name)


def load_labelled(settings: DataSettings, wanted: Wanted) -> LabelledData:
    """A built-in world, or files."""
    if settings.world is None:
        corpora = read_labelled_splits(settings, wanted)
        notes = [note for name, corpus in corpora.items() for note in corpus.notes(name)]
        return LabelledData({name: one.examples for name, one in corpora.items()}, tuple(notes))
    kinds = {"label": "labels", "score": "similar", "text": "texts"}
    return LabelledData(world_records(settings, kinds[wanted]))


@dataclass(frozen=True, slots=True)
class QuestionData(LabelledData):
    """Splits by name, and what a user should know about how they came about."""

    splits: Mapping[str, Sequence[Question]]

    def split(self, name: str) -> Sequence[Question]:
        """One of them; a wrong name is told."""
        return split_of(self.splits, name)


def load_questions(settings: DataSettings) -> QuestionData:
    """A built-in world, or files."""
    if settings.world is None:
        corpora = read_question_splits(settings)
        notes = [note for name, corpus in corpora.items() for note in corpus.notes(name)]
        return QuestionData({name: one.examples for name, one in corpora.items()}, tuple(notes))
    return QuestionData(world_records(settings, "questions"))
