import math

import pytest
import torch
from oracles import attend_by_loops, inner, qkv

import regard
from regard.functional import positions
from regard.functional.positions import Alibi


@pytest.mark.parametrize("need_weights", [False, True])
def test_a_bias_is_added_to_the_scores(rng, need_weights):
    q, k, v = qkv(rng)
    bias = torch.randn(3, 4, 5, generator=rng, dtype=torch.float64)

    def pair_score(b, h, t, s):
        scaled = inner(q[b, h, t].tolist(), k[b, h, s].tolist()) / math.sqrt(q.shape[-1])
        return scaled + bias[h, t, s].item()

    values, weights = attend_by_loops(q, k, v, None, pair_score)
    got = regard.attention(q, k, v, bias=bias, need_weights=need_weights)
    torch.testing.assert_close(got.values if need_weights else got, values)
    if need_weights:
        torch.testing.assert_close(got.weights, weights)


def test_slopes_take_away_by_distance():
    got = Alibi(torch.tensor([1.0, 0.5]), first=1).dense(2, 3)
    assert got.tolist() == [[[-1, 0, -1], [-2, -1, 0]], [[-0.5, 0, -0.5], [-1, -0.5, 0]]]


def test_by_default_the_last_query_stands_at_the_last_key():
    slopes = torch.tensor([0.25])
    assert torch.equal(Alibi(slopes).dense(2, 5), Alibi(slopes, first=3).dense(2, 5))


def test_the_future_hidden_it_is_the_papers_formula():
    """−m·(i − j) for what came before."""
    bias = Alibi(torch.tensor([0.5])).dense(4, 4)[0]
    for i in range(4):
        for j in range(i + 1):
            assert bias[i, j] == -0.5 * (i - j)


def test_a_bias_can_be_made_stronger():
    slopes, numbers = Alibi(torch.tensor([1.0, 3.0])), torch.ones(2, 2)
    assert torch.equal(positions.scaled_bias(slopes, 2).dense(2, 2), 2 * slopes.dense(2, 2))
    assert torch.equal(positions.scaled_bias(numbers, 2), 2 * numbers)
    assert positions.scaled_bias(None, 2) is None
