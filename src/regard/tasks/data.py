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
from regard.data import toys
from regard.data.corpora import read_splits
from regard.data.examples import Table, encode_table, stored_table, within
from regard.data.labelled import Labelled, Wanted, read_labelled_splits
from regard.data.lines import present
from regard.data.pairs import Pair
from regard.data.questions import Question, read_question_splits
from regard.data.sentences import labelled_world, question_world
from regard.data.sentences import world as sentences
from regard.data.sentences.labelled_world import LABELLED_WORLDS
from regard.data.sentences.question_world import QUESTION_WORLD
from regard.data.settings import DataSettings
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


_WORLDS: Mapping[Wanted, tuple[str, ...]] = {
    "label": (*LABELLED_WORLDS,),
    "score": ("sentences",),
    "text": ("sentences", *LABELLED_WORLDS),
}
"""Built-in data that has what is wanted."""


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
    world = settings.world
    if world not in _WORLDS[wanted]:
        lacks = {"label": "labels", "score": "pairs that are alike", "text": "texts"}[wanted]
        raise ConfigError(
            f"world {world!r} has no {lacks}; choose {' or '.join(_WORLDS[wanted])}, or name files "
            "in data.train"
        )
    size = {} if settings.n_train is None else {"n_train": settings.n_train}
    if world != "sentences":
        return LabelledData(labelled_world.build(world, seed=settings.world_seed, **size))
    built = sentences.build(settings.direction, seed=settings.world_seed, **size)
    return LabelledData(
        {name: _sentences(built, name, wanted) for name in ("train", "valid", "test")}
    )


def _sentences(built: sentences.World, split: str, wanted: Wanted) -> list[Labelled]:
    """Sentences and their translations, or sentences alone."""
    pairs = built.splits[split]
    if wanted == "score":
        return [Labelled(pair.source, pair.target) for pair in pairs]
    return [Labelled(pair.source) for pair in pairs]


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
    if settings.world != QUESTION_WORLD:
        raise ConfigError(
            f"world {settings.world!r} has no questions; choose {QUESTION_WORLD}, or name files in "
            "data.train"
        )
    size = {} if settings.n_train is None else {"n_train": settings.n_train}
    return QuestionData(question_world.build(seed=settings.world_seed, **size))
