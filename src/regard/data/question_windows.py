"""Questions with their texts, a window at a time where a text is longer than a model reads.

Windows overlap by half, so whatever is no longer than half of one stands whole in some window.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from regard.core.errors import DataError
from regard.data.examples import Column, IdTable, Ints
from regard.data.records import Question
from regard.data.row_batches import NOT_HERE, Layout

Offsets = Sequence[tuple[int, int]]
"""Where each token of a text begins and ends, in characters."""


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
    """(rows, 2): the positions of the answer's first and last token in each row.

    Both are ``NOT_HERE`` where the answer does not stand whole in the row's part.
    """
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
