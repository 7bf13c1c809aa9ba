import pytest
import torch

from regard import lab
from regard.lab.claims.gradients import _attention, _rnn
from regard.lab.small_models import block_norms

SMALL = {"n_steps": 20, "n_draws": 6}


def _blocks(function, x):
    """(T, D, S, D) by torch's own Jacobian, for one example."""
    return torch.autograd.functional.jacobian(lambda one: function(one[None])[0], x)


def test_gradients_fade_explode_or_stay_as_the_lectures_say():
    result = lab.gradients(**SMALL)
    assert result.verdict
    assert "Not seen here" not in result.finding
    assert len(result.numbers["LSTM: size by steps back"]) == 20


def test_recurrent_weights_that_neither_shrink_nor_stretch_turn_the_verdict():
    result = lab.gradients(small=2.0, large=2.0, **SMALL)
    assert not result.verdict
    assert "fades a hundredfold" in result.finding


def test_a_softmax_that_does_not_saturate_turns_the_verdict():
    result = lab.gradients(sharpest=1, **SMALL)
    assert not result.verdict
    assert "saturated softmax" in result.finding


def test_the_same_seed_gives_the_same_numbers_and_leaves_the_generator_alone():
    first = lab.gradients(n_steps=6, n_draws=2)
    torch.rand(1)
    before = torch.random.get_rng_state()
    assert lab.gradients(n_steps=6, n_draws=2).numbers == first.numbers
    assert torch.equal(before, torch.random.get_rng_state())


def test_block_norms_are_those_of_the_jacobian():
    torch.manual_seed(1)
    mix, x = torch.randn(3, 4, dtype=torch.float64), torch.randn(2, 4, 5, dtype=torch.float64)

    def function(x):
        return (mix @ x).tanh()

    expected = torch.stack([_blocks(function, one).norm(dim=(1, 3)) for one in x])
    torch.testing.assert_close(block_norms(function, x), expected)


def test_one_step_of_an_rnn_multiplies_by_its_weights_and_the_slope_of_tanh():
    torch.manual_seed(1)
    last = _rnn(0.5)
    inner = last.__closure__[0].cell_contents
    from_input, from_state = inner.all_weights[0]
    x = torch.randn(1, 2, 16, dtype=torch.float64)
    first, second = inner(x)[0][0]
    slopes = [torch.diag(1 - h**2) for h in (first, second)]
    by_hand = slopes[1] @ from_state @ slopes[0] @ from_input
    torch.testing.assert_close(block_norms(last, x)[0, 0, 0], by_hand.norm())
    assert torch.linalg.svdvals(from_state).detach().numpy() == pytest.approx(0.5)


def test_the_two_ways_through_attention_add_up_to_the_whole():
    ways = {}
    for way in ("both", "values", "softmax"):
        torch.manual_seed(1)
        last = _attention(way, 3.0)
        ways[way] = _blocks(last, torch.randn(5, 16, dtype=torch.float64))
    torch.testing.assert_close(ways["values"] + ways["softmax"], ways["both"])
    assert ways["values"].norm() > 0.1
    assert ways["softmax"].norm() > 0.1
