"""Ids of others become ours, and no probability changes by it."""

import pytest
import torch

from regard.interop.naming import CLOSED, specials_first


def test_special_ids_go_to_the_front_and_the_rest_stays_in_order():
    found = specials_first(7, pad=6, begin=2, end=0, unknown=4)
    assert found.rows == (6, 2, 0, 4, 1, 3, 5)
    assert not found.closed
    assert not found.same


def test_ids_that_are_ours_already_stay():
    assert specials_first(6, pad=0, begin=1, end=2, unknown=3).same


def test_padding_that_begins_a_target_leaves_our_padding_without_a_row():
    found = specials_first(5, pad=4, begin=4, end=0, unknown=1)
    assert found.rows == (None, 4, 0, 1, 2, 3)
    assert found.closed == {0}


def test_an_end_that_begins_a_target_stands_twice_and_is_written_as_the_end():
    found = specials_first(5, pad=3, begin=0, end=0, unknown=1)
    assert found.rows == (3, 0, 0, 1, 2, 4)
    assert found.closed == {1}


def test_without_an_unknown_token_its_row_is_closed():
    found = specials_first(4, pad=0, begin=1, end=2, unknown=None)
    assert found.rows == (0, 1, 2, None, 3)
    assert found.closed == {3}


@pytest.mark.parametrize("bias", [None, torch.arange(5.0)])
def test_probabilities_stay_with_their_tokens(bias):
    found = specials_first(5, pad=4, begin=0, end=0, unknown=None)
    table, state = torch.randn(5, 3), torch.randn(3)
    before = (table @ state + (0 if bias is None else bias)).softmax(-1)
    after = (found.taken(table) @ state + found.bias(bias, 5)).softmax(-1)
    for ours, theirs in enumerate(found.rows):
        if ours in found.closed:
            assert after[ours] == 0
        else:
            assert after[ours] == pytest.approx(float(before[theirs]))
    assert found.bias(bias, 5)[1] == CLOSED


def test_tokens_follow_their_rows_and_never_pass_for_ours():
    found = specials_first(6, pad=None, begin=1, end=1, unknown=2)
    assert found.tokens(["a", "</s>", "<unk>", "<s>", "b", "c"]) == [
        *("<pad>", "<s>", "</s>", "<unk>"),
        *("a", "<s>_", "b", "c"),
    ]
