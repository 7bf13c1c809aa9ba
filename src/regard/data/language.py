"""Texts to learn a language from, and windows on them when they lie end to end as ids.

Texts are plain lines, JSONL with a field ``text``, or a world's sentences. A line of a plain file
is a text, and an empty line is an empty one: nothing is stripped and nothing is left out, for where
a line ends is part of what is learned.

A window of max_len + 1 ids is max_len to read and max_len to predict, shifted by one. All windows
are of one shape, so nothing is padding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from regard.core.errors import ConfigError, DataError
from regard.data.batch import Batch
from regard.data.examples import AT_ONCE, Column, Ids, IdTable, Ints
from regard.data.file_patterns import expanded
from regard.data.lines import read_lines
from regard.data.readers import KEYED, READERS, TABLES, an_object, ending, text_value
from regard.data.settings import DataSettings
from regard.data.shard_windows import ShardedIds
from regard.data.splits import NAMES, located_splits, read_splits
from regard.data.stream import Stream
from regard.data.worlds.prompted import PromptedSplits, everything, prompted, texts_of
from regard.data.worlds.registry import EVERYTHING, world_records
from regard.text.tokenizer import Tokenizer

Texts = tuple[str, ...]
HELD_OUT = 20
"""One line in so many is held out where nothing is said."""
OWN = "answers"
"""The task of a user's own files that are written by a prompt."""


def prompted_splits(settings: DataSettings) -> PromptedSplits:
    """The tasks that texts are made of, split by split; empty where texts are just texts."""
    if settings.world == EVERYTHING:
        asked = settings.world_request()
        return everything(asked.direction, **asked.size)
    if settings.prompt is None:
        return {}
    corpora = read_splits(settings, "label")
    rows = {name: one.examples for name, one in corpora.items()}
    return {name: (task,) for name, task in prompted(OWN, settings.prompt, rows).items()}


def text_splits(settings: DataSettings, tasks: PromptedSplits | None = None) -> dict[str, Texts]:
    """The texts of each split, in their order; ``tasks`` are its prompted splits, if made."""
    tasks = prompted_splits(settings) if tasks is None else tasks
    if tasks:
        return {name: texts_of(some, settings.world_seed) for name, some in tasks.items()}
    if settings.world is not None:
        records = world_records(settings.world_request(), "language")
        return {name: tuple(some) for name, some in records.items()}
    check_texts(settings)
    files = located_splits(settings)
    splits = {name: read_texts(str(one)) for name, one in files.items()}
    if "valid" not in splits:  # the last texts are held out: text is no bag of sentences
        texts = splits["train"]
        n = settings.hold_out or max(1, len(texts) // HELD_OUT)
        if n >= len(texts):
            raise DataError(
                f"{files['train']}: cannot hold out {n:,} of {len(texts):,} lines for validation; "
                "lower data.hold_out, give more text, or name a file in data.valid"
            )
        splits |= {"train": texts[:-n], "valid": texts[-n:]}
    return {name: splits[name] for name in NAMES if name in splits}


def lines_go_on(settings: DataSettings) -> bool:
    """Whether texts go on where the one before ended: only lines of plain files do."""
    if settings.world is not None or settings.prompt is not None:
        return False
    return all(ending(Path(str(one.train))) not in KEYED for one in settings.corpora)


def check_texts(settings: DataSettings) -> None:
    """Refuse what is said of pairs."""
    for name in NAMES:
        named = (
            [getattr(settings, name)] if name != "train" else [x.train for x in settings.corpora]
        )
        if any(isinstance(one, tuple) for one in named):
            raise ConfigError(
                f"data.{name} names two files, but a language is learned from one text; name one"
            )
    if settings.columns is not None:
        raise ConfigError("data.columns is for pairs, and plain texts have none; leave it out")
    if settings.pattern is not None:
        raise ConfigError("data.pattern is for labels, and plain texts have none; leave it out")
    if settings.hold_out is not None and settings.valid is not None:
        raise ConfigError(
            "data.hold_out takes lines of train for valid, but data.valid names a file; keep one"
        )


def read_texts(name: str) -> Texts:
    """All texts of a file, or of the files that a pattern matches."""
    return tuple(stream_texts(name))


def stream_texts(name: str) -> Iterator[str]:
    """Texts one by one; what is wrong is told as ``file:line: finding; remedy``."""
    for one in expanded(name):
        path, n, written = Path(str(one)), 0, False
        if ending(path) in TABLES:
            raise DataError(
                f"{path}: a table, but a language is learned from plain text; give a .txt file "
                'with a text a line, or .jsonl with {"text": "…"}, or say in data.prompt how rows '
                "are written as texts"
            )
        for text in _entries(path) if ending(path) in KEYED else read_lines(path):
            n, written = n + 1, written or bool(text.strip())
            yield text
        if not n:
            raise DataError(f"{path}: empty; expected a text a line")
        if not written:
            raise DataError(f"{path}: {n:,} lines, and no text in any of them")


def _entries(path: Path) -> Iterator[str]:
    for row in READERS[ending(path)](path):
        if row.values is not None:
            entry = an_object(row.values, ("text",), row.where)
            yield text_value(entry["text"], "text", row.where)


def laid(
    texts: Sequence[str], tokenizer: Tokenizer, *, opening: Sequence[int], closed: bool = True
) -> Ids:
    """The opening, then each text with an end token; the last has none if not ``closed``."""
    end = tokenizer.specials.end
    parts = [np.array(opening, np.int32)]
    for begin in range(0, len(texts), AT_ONCE):  # lists of Python numbers are large
        found = tokenizer.encode_batch(texts[begin : begin + AT_ONCE])
        flat = chain.from_iterable((*ids, end) for ids in found)
        parts.append(np.fromiter(flat, np.int32, sum(map(len, found)) + len(found)))
    joined = np.concatenate(parts)
    return joined if closed or not texts else joined[:-1]


@dataclass(frozen=True)
class Tape:
    """One long text as ids. Each epoch cuts it into windows elsewhere."""

    ids: Ids
    max_len: int
    seed: int

    def __post_init__(self) -> None:
        _check_length(self.n_ids, self.max_len)

    def __len__(self) -> int:
        """Windows of an epoch, or one more."""
        return (self.n_ids - 1) // self.max_len

    @property
    def n_ids(self) -> int:
        """How long the text is."""
        return len(self.ids)

    @property
    def fewest(self) -> int:
        """Windows that are planned together, at least; 0 where there may be just one."""
        return len(self) - 1

    @cached_property
    def digest(self) -> str:
        """A fingerprint of the ids and of how they are cut."""
        hashed = blake2b(f"{self.max_len} {self.seed} ".encode(), digest_size=16)
        hashed.update(np.ascontiguousarray(self.ids).data)
        return hashed.hexdigest()

    def of_epoch(self, epoch: int) -> IdTable:
        """The windows as targets without sources, begun at an offset below ``max_len``."""
        return _windows(self.ids, self.max_len, np.random.default_rng((self.seed, epoch, 1)))

    def read(self, number: int) -> list[int]:
        """The window that begins at a place, without its last id."""
        return self.ids[number : number + self.max_len].tolist()


class ShardedTape:
    """One long text as ids in shards, a part of it in memory. Each epoch cuts the parts elsewhere.

    Parts of other shards follow each other in each epoch. What is left of a part behind its last
    window is not read in that epoch.
    """

    def __init__(self, shards: ShardedIds, max_len: int, seed: int) -> None:
        self.shards, self.max_len, self.seed = shards, max_len, seed
        _check_length(self.n_ids, max_len)
        digest = shards.order.digest(shards.folder.manifest.digest)
        self.digest = blake2b(f"{max_len} {seed} {digest}".encode(), digest_size=16).hexdigest()

    def __len__(self) -> int:
        """Windows of an epoch, or some more."""
        return (len(self.shards.order) - 1) // self.max_len

    @property
    def n_ids(self) -> int:
        """How long the text is."""
        return self.shards.order.n_units

    @property
    def n_windows(self) -> int:
        """Parts of an epoch."""
        return self.shards.order.n_windows

    @property
    def fewest(self) -> int:
        """Windows that are planned together, at least."""
        return (len(self.shards.order) // self.n_windows - 1) // self.max_len - 1

    def of_window(self, epoch: int, window: int) -> IdTable:
        """The windows of a part; their numbers are places among all ids."""
        ids, begins, places = self.shards.window(epoch, window)
        rng = np.random.default_rng((self.seed, epoch, 1, window))
        table = _windows(ids, self.max_len, rng)
        starts = table.target.starts
        part = np.searchsorted(begins, starts, side="right") - 1
        return replace(table, numbers=places[part] + starts - begins[part])

    def read(self, number: int) -> list[int]:
        """The window that begins at a place, without its last id, as far as its shard reaches."""
        return self.shards.read(number, self.max_len)


def _check_length(n_ids: int, max_len: int) -> None:
    if n_ids <= max_len:
        raise DataError(
            f"there are {n_ids:,} tokens to train on, fewer than one window of "
            f"model.max_len + 1 = {max_len + 1}; give more text, or lower model.max_len"
        )


def _windows(ids: Ids, max_len: int, rng: np.random.Generator) -> IdTable:
    """Windows of ``max_len`` + 1 ids that overlap by one, begun at a random offset."""
    room = min(max_len, len(ids) - max_len)
    offset = int(rng.integers(room)) if room > 0 else 0
    starts = np.arange(offset, len(ids) - max_len, max_len, dtype=np.int64)
    lengths = np.full(len(starts), max_len + 1, dtype=np.int64)
    nothing = np.zeros(len(starts), dtype=np.int64)
    return IdTable(
        Column(np.zeros(1, np.int32), nothing, nothing),
        Column(ids, starts, lengths),
        numbers=starts,
    )


def window_stream(tape: Tape | ShardedTape, *, batch_tokens: int) -> Stream:
    """Batches without end of ``batch_tokens // max_len`` windows, at least one, all of one shape.

    A batch has ``target`` (B, max_len + 1); its numbers say where each window begins on the tape.
    Windows that would not fill the last batch of an epoch, or of a part of it that is in memory,
    are left out; another epoch has others.
    """
    n_rows = max(1, min(batch_tokens // tape.max_len, tape.fewest))

    def plan(table: IdTable, rng: np.random.Generator) -> list[Ints]:
        order = rng.permutation(len(table))
        return [order[i : i + n_rows] for i in range(0, len(order) - n_rows + 1, n_rows)]

    def collate(table: IdTable, rows: Ints) -> Batch:
        at = table.target.starts[rows][:, None] + np.arange(tape.max_len + 1)
        ids = torch.from_numpy(table.target.ids[at].astype(np.int64))
        return Batch({"target": ids}, table.numbers_of(rows), count=len(rows) * tape.max_len)

    depends_on = {"batch_tokens": batch_tokens, "packed": False}
    return Stream(tape, plan, collate, seed=tape.seed, depends_on=depends_on)


class Span(NamedTuple):
    """Ids begin … end are read, to predict begin + 1 … end; those from ``first`` on count."""

    begin: int
    end: int
    first: int

    @property
    def shape(self) -> tuple[int, int]:
        """How many are read, and how many count."""
        return self.end - self.begin, self.end - self.first + 1


def spans(n_ids: int, max_len: int, stride: int) -> Iterator[Span]:
    """Windows that predict every id but the first, once each.

    They begin ``stride`` apart, so an id has at least max_len - stride ids before it, where there
    are so many.

    >>> list(spans(8, max_len=4, stride=2))
    [Span(begin=0, end=4, first=1), Span(begin=2, end=6, first=5), Span(begin=4, end=7, first=7)]
    """
    begin, first = 0, 1
    while first < n_ids:
        end = min(begin + max_len, n_ids - 1)
        yield Span(begin, end, first)
        begin, first = begin + stride, end + 1
