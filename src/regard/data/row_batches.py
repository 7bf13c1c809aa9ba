"""Texts, or pairs of them, as batches for an encoder.

A row is begin, text, end, and perhaps other text, end. ``ids`` and ``segments`` (B, S) are what is
read: a segment is 0 in the first text and 1 in the second. What a row is to be read as lies beside
them: ``labels`` (B,), ``scores`` (B,), or ``spans`` (B, 2). A loss is averaged over rows.

Or words are left out of the texts (Devlin et al. 2019), anew each epoch. Of all tokens 15 % are to
be guessed. In the place of such a token stands the mask (80 %), any other token (10 %) or the token
itself (10 %), so that a model must doubt what it sees.

A text that a question is asked about may be longer than a model reads. It is cut into windows that
overlap by half, so whatever is no longer than half of one stands whole in some window.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.core.errors import ConfigError, DataError
from regard.data.batch import Batch
from regard.data.batching import buckets, cut_in_order
from regard.data.examples import Column, Example, IdTable, Ints
from regard.data.records import Question
from regard.data.stream import Stream
from regard.text.specials import SpecialIds

NOT_HERE = 0
"""The position that stands for an answer which is not in a row: that of the begin token."""
SHARE = 0.15
"""Of the tokens, to be guessed."""
MASKED, SWAPPED = 0.8, 0.1
"""Of these, those that stand behind a mask, and those that another token stands for."""
Offsets = Sequence[tuple[int, int]]
"""Where each token of a text begins and ends, in characters."""
FIXED_SEED = 0
"""For texts that are scored: the same words are left out each time."""


@dataclass(frozen=True, slots=True)
class Layout:
    """How texts become rows: which ids stand around them, and how long a row may be."""

    specials: SpecialIds
    max_len: int
    joined: bool = True
    """Whether the two texts of a pair stand in one row; else each is a row of its own."""

    @property
    def begin(self) -> list[int]:
        """What stands before a text, where the tokenizer has something."""
        return [] if self.specials.begin is None else [self.specials.begin]

    @property
    def n_begin(self) -> int:
        """Positions before a text."""
        return len(self.begin)

    def cut(self, examples: Sequence[Example]) -> tuple[IdTable, int]:
        """Texts that fit, and how many had to be cut for it; the longer of two is cut first."""
        table = IdTable.of(examples)
        a, b = table.source.lengths, table.target.lengths
        if not self.joined:
            room = self.max_len - self.n_begin - 1
            fitting = IdTable(table.source.cut(room), table.target.cut(room))
            return fitting, int(((a > room) | (b > room)).sum())
        room_of = self.max_len - self.n_begin - 1 - (b > 0)
        first = np.minimum(a, np.maximum(room_of - b, -(-room_of // 2)))
        second = room_of - first
        fitting = IdTable(table.source.cut(first), table.target.cut(second))
        return fitting, int((a + b > room_of).sum())

    def lengths(self, column: Column) -> Ints:
        """Positions that each text fills alone."""
        return column.lengths + self.n_begin + 1

    def sizes(self, table: IdTable) -> tuple[Ints, Ints]:
        """Positions of each example: of its rows, or of its one row, twice."""
        first, second = table.source, table.target
        if not self.joined:
            return self.lengths(first), self.lengths(second)
        joined = self.lengths(first) + np.where(second.lengths > 0, second.lengths + 1, 0)
        return joined, joined

    def row(self, first: Sequence[int], second: Sequence[int] = ()) -> tuple[list[int], list[int]]:
        """Ids and segments of one text or pair."""
        ids = [*self.begin, *first, self.specials.end]
        segments = [0] * len(ids)
        if len(second):
            ids += [*second, self.specials.end]
            segments += [1] * (len(second) + 1)
        return ids, segments

    def padded(self, rows: Sequence[tuple[list[int], list[int]]]) -> tuple[Tensor, Tensor]:
        """Ids (B, S) and segments (B, S), padding behind the shorter ones."""
        longest = max(len(ids) for ids, _ in rows)
        both = np.full((2, len(rows), longest), self.specials.pad, dtype=np.int64)
        both[1] = 0
        for i, (ids, segments) in enumerate(rows):
            both[0, i, : len(ids)] = ids
            both[1, i, : len(ids)] = segments
        return torch.from_numpy(both[0]), torch.from_numpy(both[1])

    def texts(self, table: IdTable, rows: Ints) -> tuple[Tensor, Tensor]:
        """Some examples, each in one row: ids and segments."""
        return self.padded([self.row(table.source[i], table.target[i]) for i in rows.tolist()])

    def side(self, column: Column, rows: Ints) -> Tensor:
        """One side of some examples (B, S), each text alone."""
        return self.padded([self.row(column[i]) for i in rows.tolist()])[0]


def labelled_batch(table: IdTable, rows: Ints, *, layout: Layout, labels: Ints) -> Batch:
    """Some of the texts with the numbers of their labels; of all texts, or none if not known."""
    ids, segments = layout.texts(table, rows)
    chosen = torch.from_numpy(labels[rows] if len(labels) else labels)
    return _of_rows(rows, ids=ids, segments=segments, labels=chosen)


def scored_pairs_batch(
    table: IdTable, rows: Ints, *, layout: Layout, scores: NDArray[np.float32]
) -> Batch:
    """Pairs, apart: ``ids`` (B, S), ``other_ids`` (B, T); ``scores`` (B,), if any: how alike."""
    return _of_rows(
        rows,
        ids=layout.side(table.source, rows),
        other_ids=layout.side(table.target, rows),
        scores=torch.from_numpy(scores[rows] if len(scores) else scores),
    )


def span_batch(table: IdTable, rows: Ints, *, layout: Layout, spans: Ints) -> Batch:
    """Some of the questions with a window of their text each, and ``spans`` (B, 2) of the answers.

    ``allowed`` (B, S) is True where an answer may start or end, ``NOT_HERE`` included.
    """
    ids, segments = layout.texts(table, rows)
    begin = torch.from_numpy(table.source.lengths[rows] + layout.n_begin + 1)
    end = begin + torch.from_numpy(table.target.lengths[rows])
    at = torch.arange(ids.shape[1])
    allowed = (at >= begin.unsqueeze(1)) & (at < end.unsqueeze(1))
    allowed[:, NOT_HERE] = True
    chosen = torch.from_numpy(spans[rows])
    return _of_rows(rows, ids=ids, segments=segments, allowed=allowed, spans=chosen)


def _of_rows(rows: Ints, **tensors: Tensor) -> Batch:
    return Batch(tensors, numbers=tuple(rows.tolist()), count=len(rows))


RowCollate = Callable[..., Batch]
"""One of the functions above: a table, rows, the layout, and what is to be learned by name."""


def row_stream(
    collate: RowCollate,
    examples: Sequence[Example],
    layout: Layout,
    *,
    batch_tokens: int,
    seed: int,
    **learned: NDArray[np.generic],
) -> Stream:
    """Rows without end; ``learned`` is what is learned of each, as ``collate`` names it."""

    def plan(table: IdTable, rng: np.random.Generator) -> list[Ints]:
        return buckets(*layout.sizes(table), batch_tokens, rng)

    depends_on: dict[str, int | str] = {"batch_tokens": batch_tokens, "packed": False}
    for name, values in learned.items():
        depends_on[name] = blake2b(values.tobytes(), digest_size=16).hexdigest()
    collate = partial(collate, layout=layout, **learned)
    return Stream(IdTable.of(examples), plan, collate, seed=seed, depends_on=depends_on)


def ordered_rows(table: IdTable, layout: Layout, batch_tokens: int) -> list[Ints]:
    """All examples once, shortest first, cut into batches: for scoring."""
    first, second = layout.sizes(table)
    return cut_in_order(np.lexsort((second, first)), np.maximum(first, second), batch_tokens)


class Masking:
    """Chooses tokens and what stands in their place, in a vocabulary of ``n_vocab`` ids."""

    def __init__(self, layout: Layout, n_vocab: int) -> None:
        if layout.specials.mask is None:
            raise ConfigError("the tokenizer has no token for masked words; train a new one")
        self.layout, self.mask = layout, layout.specials.mask
        self.spoken = np.setdiff1d(np.arange(n_vocab), [*layout.specials.named().values()])
        """Ids that stand for text."""

    def batch(self, table: IdTable, rows: Ints, rng: np.random.Generator) -> Batch:
        """Some of the texts; at least one token of them is to be guessed.

        ``ids`` and ``segments`` (B, S) are read; ``positions`` (N,) say where in the B · S of them
        something is to be guessed, and ``targets`` (N,) what stood there.
        """
        ids, segments = self.layout.texts(table, rows)
        read = ids.numpy()
        specials = self.layout.specials
        around = [specials.pad, specials.end, *self.layout.begin]
        text = np.flatnonzero(~np.isin(read, around))
        positions = text[rng.random(len(text)) < SHARE]
        if not len(positions) and len(text):
            positions = text[rng.integers(len(text), size=1)]
        targets = read.ravel()[positions]
        fate = rng.random(len(targets))
        others = self.spoken[rng.integers(len(self.spoken), size=len(targets))]
        shown = np.where(fate < MASKED + SWAPPED, others, targets)
        read.ravel()[positions] = np.where(fate < MASKED, self.mask, shown)
        guessed = {"positions": torch.from_numpy(positions), "targets": torch.from_numpy(targets)}
        tensors = {"ids": ids, "segments": segments, **guessed}
        return Batch(tensors, numbers=tuple(rows.tolist()), count=len(positions))


@dataclass(frozen=True, slots=True)
class SeededRows:
    """The texts of a batch, and what decides all that is drawn for them."""

    rows: Ints
    seed: int

    def __len__(self) -> int:
        return len(self.rows)

    def part(self, i: int, n: int) -> SeededRows:
        """The i-th of n parts of the texts."""
        return SeededRows(np.array_split(self.rows, n)[i], self.seed + i)


def masked_stream(
    examples: Sequence[Example], masking: Masking, *, batch_tokens: int, seed: int
) -> Stream:
    """Masked texts without end. Seed and epoch decide all, so that going on is exact."""

    def plan(table: IdTable, rng: np.random.Generator) -> list[SeededRows]:
        planned = buckets(*masking.layout.sizes(table), batch_tokens, rng)
        batches = [rows for rows in planned if table.source.lengths[rows].any()]
        seeds = rng.integers(2**63 - 1, size=len(batches)).tolist()
        return list(map(SeededRows, batches, seeds))

    def collate(table: IdTable, part: SeededRows) -> Batch:
        return masking.batch(table, part.rows, np.random.default_rng(part.seed))

    how: dict[str, Any] = {
        "depends_on": {"batch_tokens": batch_tokens, "packed": False},
        "split": SeededRows.part,
    }
    return Stream(IdTable.of(examples), plan, collate, seed=seed, **how)


def fixed_masked(examples: Sequence[Example], masking: Masking, batch_tokens: int) -> list[Batch]:
    """All texts once, always with the same tokens left out: for scoring."""
    table = IdTable.of(examples)
    parts = ordered_rows(table, masking.layout, batch_tokens)
    rng = np.random.default_rng(FIXED_SEED)
    return [masking.batch(table, rows, rng) for rows in parts]


@dataclass(frozen=True, slots=True)
class Windows:
    """Rows that fit: a question (source) and a part of its text (target)."""

    table: IdTable
    questions: Ints
    """Which question each row asks."""
    firsts: Ints
    """The number, in its text, of the first token of each row's part."""
    n_cut: int
    """Questions that lost their end, so that there is room for the text."""


def windows_of(examples: IdTable, layout: Layout) -> Windows:
    """Cut texts into windows; a question may take half of the room."""
    room = layout.max_len - layout.n_begin - 2  # an end token after each
    asked = np.minimum(examples.source.lengths, room // 2)
    parts = [
        (i, first, min(n, room - q))
        for i, (q, n) in enumerate(
            zip(asked.tolist(), examples.target.lengths.tolist(), strict=True)
        )
        for first in window_starts(n, room - q)
    ]
    questions, firsts, lengths = np.array(parts, np.int64).reshape(-1, 3).T.copy()
    source, target = examples.source, examples.target
    table = IdTable(
        Column(source.ids, source.starts[questions], asked[questions]),
        Column(target.ids, target.starts[questions] + firsts, lengths),
    )
    return Windows(table, questions, firsts, int((examples.source.lengths > asked).sum()))


def window_starts(n: int, room: int) -> list[int]:
    """Where windows of ``room`` tokens begin in a text of ``n``; the last ends with the text.

    >>> window_starts(10, 4)
    [0, 2, 4, 6]
    >>> window_starts(3, 4)
    [0]
    """
    if n <= room:
        return [0]
    return [*range(0, n - room, max(room // 2, 1)), n - room]


def first_of_text(windows: Windows, layout: Layout) -> Ints:
    """The position in each row at which its part of the text begins."""
    return windows.table.source.lengths + layout.n_begin + 1


def gold_spans(
    windows: Windows, layout: Layout, questions: Sequence[Question], offsets: Sequence[Offsets]
) -> Ints:
    """(rows, 2): first and last token of the answer, or ``NOT_HERE`` where it is not whole."""
    pairs = zip(questions, offsets, strict=True)
    spans = np.array([answer_tokens(one, places) for one, places in pairs], np.int64)
    inside = spans[windows.questions] - windows.firsts[:, None]
    whole = (inside[:, 0] >= 0) & (inside[:, 1] < windows.table.target.lengths)
    placed = inside + first_of_text(windows, layout)[:, None]
    return np.where(whole[:, None], placed, NOT_HERE)


def answer_tokens(question: Question, offsets: Offsets) -> tuple[int, int]:
    """The first and the last token of a context that hold some of the answer."""
    held = [
        number
        for number, (begin, end) in enumerate(offsets)
        if begin < question.end and end > question.start and begin < end
    ]
    if not held:
        raise DataError(
            f"{question.where}: the tokenizer sees nothing in the answer {question.answers[0]!r}"
        )
    return held[0], held[-1]
