import torch
from torch import nn

from regard import lab
from regard.lab.claims.reach import _networks, _steps, _walked


def _x(n_tokens):
    return torch.randn(
        3, n_tokens, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64
    )


def test_attention_reaches_all_in_one_step_and_the_others_do_not():
    result = lab.reach(n_tokens=5)
    assert result.verdict
    assert [result.numbers[f"{n}: steps to the farthest"] for n in ("CNN", "RNN")] == [4, 5]
    assert result.numbers["RNN: share of pairs that are reached"] == 15 / 25
    assert result.numbers["position-wise MLP: share of pairs that are reached"] == 5 / 25


def test_attention_in_a_window_goes_from_neighbour_to_neighbour_too():
    result = lab.reach(n_tokens=5, window=1)
    assert not result.verdict
    assert result.numbers["attention: steps to the farthest"] == 4
    assert "attention needs one step to all" in result.finding


def test_a_kernel_as_wide_as_the_sequence_takes_the_neighbourhood_away():
    result = lab.reach(n_tokens=5, kernel=9)
    assert not result.verdict
    assert "the CNN reaches neighbours first" in result.finding


def test_layers_of_a_convolution_go_half_a_kernel_each():
    x = _x(6)
    steps = _steps(_networks(6, 5, None)["CNN"], x).tolist()
    assert steps[0] == [1, 1, 1, 2, 2, 3]
    assert steps[3] == [2, 1, 1, 1, 1, 1]


def test_a_state_that_has_walked_to_the_end_is_the_recurrent_networks_own():
    cell = nn.RNNCell(8, 8).double()
    whole = nn.RNN(8, 8, batch_first=True).double()
    whole.load_state_dict({f"{name}_l0": p for name, p in cell.named_parameters()})
    torch.testing.assert_close(_walked(cell, 5, _x(5)), whole(_x(5))[0])


def test_the_same_seed_gives_the_same_numbers_and_leaves_the_generator_alone():
    first = lab.reach(n_tokens=4)
    torch.rand(1)
    before = torch.random.get_rng_state()
    assert lab.reach(n_tokens=4).numbers == first.numbers
    assert torch.equal(before, torch.random.get_rng_state())
