import pytest
import torch

from regard import lab
from regard.lab.claims.linear import _Stack


def test_frozen_attention_is_one_matrix():
    result = lab.linear(n_layers=2)
    assert result.verdict
    assert result.numbers["error of superposition: frozen"] < 1e-12
    assert result.numbers["frozen and one matrix differ by"] < 1e-12


@pytest.mark.parametrize(("frozen", "feed_forward"), [(True, True), (False, False), (False, True)])
def test_a_relu_and_a_softmax_of_the_input_are_not_linear(frozen, feed_forward):
    result = lab.linear(frozen=frozen, feed_forward=feed_forward, n_layers=2)
    assert not result.verdict


def test_each_of_the_two_alone_breaks_superposition():
    numbers = lab.linear(n_layers=1).numbers
    assert numbers["error of superposition: frozen, feed-forward"] > 0.05
    assert numbers["error of superposition: own weights"] > 0.05


@pytest.mark.parametrize("fed", [False, True])
def test_freezing_an_input_at_its_own_weights_changes_nothing(fed):
    torch.manual_seed(0)
    stack = _Stack(3).double()
    x = torch.randn(1, 5, 16, dtype=torch.float64)
    weights = stack.weights(x, fed=fed)
    torch.testing.assert_close(stack(x, fed=fed, weights=weights), stack(x, fed=fed))
