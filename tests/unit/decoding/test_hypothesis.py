import math

import pytest

from regard.core.errors import CheckpointError
from regard.decoding.hypothesis import Hypothesis, penalty
from regard.text.specials import END_ID


def test_penalty_is_that_of_gnmt_worked_by_hand():
    assert penalty(1, 0.6) == 1.0  # ((5 + 1) / 6)^α for every α
    assert penalty(13, 1.0) == 3.0
    assert penalty(19, 0.5) == 2.0
    assert penalty(100, 0.0) == 1.0


def test_a_finished_hypothesis_counts_its_end_token_in_the_length():
    hypothesis = Hypothesis.read([7, 8, 9, 5, 6, 4, END_ID], -3.0, length_penalty=1.0)
    assert hypothesis == Hypothesis((7, 8, 9, 5, 6, 4), -3.0, -1.5, finished=True)


def test_an_unfinished_hypothesis_counts_its_tokens():
    hypothesis = Hypothesis.read([7, 8, 9, 5, 6, 4, 4], -3.0, length_penalty=1.0)
    assert hypothesis == Hypothesis((7, 8, 9, 5, 6, 4, 4), -3.0, -1.5, finished=False)


def test_what_follows_the_end_token_is_dropped():
    assert Hypothesis.read([7, END_ID, END_ID, 8], -1.0, length_penalty=0.0).ids == (7,)


def test_an_empty_target_is_a_target():
    hypothesis = Hypothesis.read([END_ID], -1.0, length_penalty=0.6)
    assert hypothesis == Hypothesis((), -1.0, -1.0, finished=True)


@pytest.mark.parametrize("log_prob", [math.nan, -math.inf])
def test_damaged_weights_are_named(log_prob):
    with pytest.raises(CheckpointError, match=rf"{log_prob}.*load an earlier checkpoint"):
        Hypothesis.read([7], log_prob, length_penalty=0.0)
