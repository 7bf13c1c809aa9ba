"""Long texts in windows: nothing is lost, and answers are where they are."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from regard.core.errors import CheckpointError, DataError
from regard.data.examples import Example, IdTable
from regard.data.records import Question
from regard.data.row_batches import (
    Layout,
    answer_tokens,
    first_of_text,
    gold_spans,
    row_stream,
    span_batch,
    window_starts,
    windows_of,
)
from regard.text.specials import SpecialIds

MARKS = SpecialIds(pad=0, begin=1, end=2, unknown=3, mask=4)


@given(st.integers(0, 60), st.integers(1, 20))
@hypothesis_settings(deadline=None)
def test_windows_cover_a_text_and_overlap_by_half(n, room):
    starts = window_starts(n, room)
    assert starts == sorted({*starts})
    assert starts[0] == 0
    assert starts[-1] == max(n - room, 0)
    for begin, after in pairwise(starts):
        assert after - begin <= max(room // 2, 1)
    longest = room - max(room // 2, 1) + 1
    for first in range(n):  # whatever is no longer than half stands whole in one
        for last in range(first, min(first + longest, n)):
            assert any(s <= first and last < s + room for s in starts)


def asked(n_question, n_text, max_len):
    table = IdTable.of([Example(range(10, 10 + n_question), range(100, 100 + n_text))])
    layout = Layout(MARKS, max_len)
    return windows_of(table, layout), layout


@given(st.integers(0, 12), st.integers(1, 40), st.integers(6, 20))
@hypothesis_settings(deadline=None)
def test_every_row_fits_and_has_the_question_and_a_part_of_the_text(n_question, n_text, max_len):
    windows, layout = asked(n_question, n_text, max_len)
    room = max_len - 3
    seen = set()
    for row, example in enumerate(windows.table):
        first = windows.firsts[row]
        kept = min(n_question, room // 2)
        assert example.source == list(range(10, 10 + kept))
        assert example.target == list(range(100 + first, 100 + first + len(example.target)))
        seen |= {*example.target}
        ids, _ = layout.row(example.source, example.target)
        assert len(ids) <= max_len
        assert ids[first_of_text(windows, layout)[row]] == example.target[0]
    assert seen == {*range(100, 100 + n_text)}
    assert windows.n_cut == (n_question > room // 2)


def test_answers_stand_where_their_letters_stand():
    question = Question.of("?", "one two three four", ("two three",), 4)
    words = [(0, 3), (4, 7), (8, 13), (14, 18)]
    assert answer_tokens(question, words) == (1, 2)
    spaced = [(0, 3), (3, 7), (7, 10), (10, 13), (13, 18)]  # pieces that take a space along
    assert answer_tokens(question, spaced) == (1, 3)
    with pytest.raises(DataError, match=r"f:3: the tokenizer sees nothing in the answer 'x'"):
        answer_tokens(Question.of("?", "a x", ("x",), 2, "f:3"), [(0, 1)])


def test_an_answer_is_gold_only_in_windows_that_hold_it_whole():
    windows, layout = asked(2, 10, 9)  # room for four tokens of the text
    assert windows.firsts.tolist() == [0, 2, 4, 6]
    text = " ".join("abcdefghij")
    places = [(2 * i, 2 * i + 1) for i in range(10)]
    question = Question.of("?", text, ("d e",), 6)  # tokens 3 and 4
    spans = gold_spans(windows, layout, [question], [places])
    # begin, two of the question, end: the text begins at 4; d is the second of the second window
    assert spans.tolist() == [[0, 0], [5, 6], [0, 0], [0, 0]]
    rows = [layout.row(one.source, one.target)[0] for one in windows.table]
    assert [rows[1][place] for place in (5, 6)] == [103, 104]


def batches_of(table, spans, **changes):
    how = {"batch_tokens": 60, "seed": 1, **changes}
    return row_stream(span_batch, table, Layout(MARKS, 16), spans=spans, **how)


def made(n=20):
    table = IdTable.of([Example([10 + i], [50 + i, 51 + i, 52][: 1 + i % 3]) for i in range(n)])
    return table, np.stack((np.full(n, 3), 3 + np.arange(n) % 3), axis=1).astype(np.int64)


def test_only_the_text_and_the_first_position_may_be_chosen():
    table = IdTable.of([Example([5, 6], [7, 8]), Example([5], [9])])
    spans = np.array([[4, 5], [0, 0]])
    batch = span_batch(table, np.array([0, 1]), layout=Layout(MARKS, 16), spans=spans)
    assert batch.ids.tolist() == [[1, 5, 6, 2, 7, 8, 2], [1, 5, 2, 9, 2, 0, 0]]
    assert batch.allowed.int().tolist() == [[1, 0, 0, 0, 1, 1, 0], [1, 0, 0, 1, 0, 0, 0]]
    assert batch.spans.tolist() == spans.tolist()
    assert batch.count == 2


def test_every_question_comes_once_an_epoch_with_its_own_answer():
    table, spans = made()
    stream = batches_of(table, spans)
    seen = [stream.next() for _ in range(stream.n_batches)]
    numbers = [number for batch in seen for number in batch.numbers]
    assert sorted(numbers) == list(range(20))
    for batch in seen:
        assert batch.spans.tolist() == spans[list(batch.numbers)].tolist()
        assert batch.ids[:, 1].tolist() == [10 + i for i in batch.numbers]


def test_a_stream_goes_on_where_it_was_and_not_with_other_answers():
    table, spans = made()
    first, second = batches_of(table, spans), batches_of(table, spans)
    for _ in range(3):
        first.next()
    second.restore(first.state())
    assert first.next().numbers == second.next().numbers
    with pytest.raises(CheckpointError, match="spans was"):
        batches_of(table, spans + 1).restore(first.state())
