import math

import pytest
import torch

from regard.functional import masks


def test_local_is_d_keys_to_either_side():
    got = masks.Near(1, first=2).dense(3, 6).int().tolist()
    assert got == [[0, 1, 1, 1, 0, 0], [0, 0, 1, 1, 1, 0], [0, 0, 0, 1, 1, 1]]


def test_a_block_is_seen_by_its_own_alone():
    got = masks.Block(2, first=3).dense(3, 6).int().tolist()
    assert got == [[0, 0, 1, 1, 0, 0], [0, 0, 0, 0, 1, 1], [0, 0, 0, 0, 1, 1]]


@pytest.mark.parametrize("window", [masks.Near(1), masks.Block(2)])
def test_the_last_query_stands_at_the_last_key(window):
    assert torch.equal(window.dense(2, 5), window._replace(first=3).dense(2, 5))


def test_padding_hides_padding():
    ids = torch.tensor([[5, 6, 0], [7, 0, 0]])
    assert masks.padding(ids, pad=0).tolist() == [[[[True, True, False]]], [[[True, False, False]]]]


def test_both_hides_what_either_hides():
    a, b = torch.tensor([True, True, False]), torch.tensor([True, False, False])
    assert masks.both(a, b).tolist() == [True, False, False]
    assert masks.both(None, b) is b
    assert masks.both(a, None) is a
    assert masks.both(None, None) is None


def test_the_predicted_centre_is_luongs_formula(rng):
    q = torch.randn(4, 3, generator=rng, dtype=torch.float64)
    weight = torch.randn(3, 5, generator=rng, dtype=torch.float64)
    v = torch.randn(5, generator=rng, dtype=torch.float64)
    got = masks.predicted_centre(q, torch.tensor(9.0), weight=weight, v=v)
    for t in range(4):
        hidden = [math.tanh(sum(q[t, i] * weight[i, a] for i in range(3))) for a in range(5)]
        inside = sum(v[a] * hidden[a] for a in range(5))
        assert math.isclose(got[t], 9 / (1 + math.exp(-inside)))


def test_around_a_centre_stand_a_window_and_a_gaussian():
    mask, gaussian = masks.around(torch.tensor([2.5]), 6, half_width=2)
    assert mask.int().tolist() == [[0, 1, 1, 1, 1, 0]]
    for s in range(6):
        assert math.isclose(gaussian[0, s], math.exp(-((s - 2.5) ** 2) / 2), rel_tol=1e-6)
