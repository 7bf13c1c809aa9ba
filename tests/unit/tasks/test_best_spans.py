"""The best spans against all spans, one by one."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.tasks.answers import best_spans

NEVER = -math.inf
scores = st.lists(
    st.tuples(*[st.one_of(st.just(NEVER), st.floats(-9, 9, width=32))] * 2), min_size=1, max_size=9
)


@given(scores, st.integers(1, 12), st.integers(1, 60))
@settings(deadline=None)
def test_they_are_the_best_of_all_that_start_before_they_end(rows, longest, n):
    starts, ends = (torch.tensor(side) for side in zip(*rows, strict=True))
    every = [
        (float(starts[i] + ends[j]), i, j)
        for i in range(len(rows))
        for j in range(i, min(i + longest, len(rows)))
        if starts[i] + ends[j] > NEVER
    ]
    found = best_spans(starts, ends, longest=longest, n=n)
    wanted = sorted((score for score, _, _ in every), reverse=True)[:n]
    assert [score for _, _, score in found] == pytest.approx(wanted)
    assert {(score, i, j) for i, j, score in found} <= {*every}
    assert len({*found}) == len(found)


def test_an_answer_has_thirty_tokens_at_most():
    starts, ends = torch.zeros(40), torch.zeros(40)
    starts[2], ends[32] = 5.0, 5.0
    assert best_spans(starts, ends)[0][2] == 5.0
    ends[31] = 5.0
    assert best_spans(starts, ends) == [(2, 31, 10.0)]
