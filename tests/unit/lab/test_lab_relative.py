import math

import pytest
import torch

from regard import lab
from regard.core.errors import ConfigError
from regard.functional.positions import sinusoid
from regard.lab.claims.relative import _matrices, _measure, _one_step


def test_plain_sinusoids_know_the_distance_and_not_the_direction():
    result = lab.relative(n_positions=32)
    assert result.verdict
    assert result.numbers["none: best offset"] == 0


def test_random_projections_end_both():
    result = lab.relative(projection="random", n_positions=32)
    assert not result.verdict
    assert result.numbers["random: spread at one distance"] > 0.1
    assert result.numbers["random: left and right differ"] > 0.1


def test_one_matrix_for_both_ends_only_the_rule_of_distance():
    result = lab.relative(projection="shared", n_positions=32)
    assert not result.verdict
    assert result.numbers["shared: spread at one distance"] > 0.1
    assert result.numbers["shared: left and right differ"] < 1e-9


def test_a_turn_keeps_the_distance_and_tells_left_from_right():
    result = lab.relative(projection="turn", n_positions=32)
    assert not result.verdict
    assert result.numbers["turn: spread at one distance"] < 1e-4
    assert result.numbers["turn: left and right differ"] > 0.05
    assert result.numbers["turn: best offset"] == -1


@pytest.mark.parametrize(("kind", "shift"), [("none", 0), ("turn", 1)])
def test_products_are_sums_of_cosines_of_the_distance(kind, shift):
    codes = sinusoid(torch.arange(9), 64).double()
    products = _measure(codes, *_matrices(kind, 0)).products
    for a in range(9):
        for b in range(9):
            by_hand = sum(math.cos((a - b - shift) / 10000 ** (2 * i / 64)) for i in range(32))
            assert products[a, b].item() == pytest.approx(by_hand, abs=1e-5)


def test_the_turn_leads_from_each_position_to_the_next():
    codes = sinusoid(torch.arange(9), 64).double()
    torch.testing.assert_close(codes[:-1] @ _one_step(), codes[1:], atol=1e-6, rtol=0)


def test_an_unknown_projection_is_refused():
    with pytest.raises(ConfigError, match="known: none, shared, random, turn"):
        lab.relative(projection="mirror")
