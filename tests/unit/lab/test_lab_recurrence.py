import pytest
import torch

from regard import lab
from regard.lab.claims.recurrence import _states, cups, echo, parity


def test_unlinked_steps_are_strangers_and_only_recurrence_tracks_a_state():
    result = lab.recurrence(length=6, n_steps=150)
    assert result.verdict
    assert result.numbers["step 2 of the decoder knows step 1: bare"] == 0
    assert result.numbers["parity, LSTM: right beyond"] > 0.95
    assert result.numbers["parity, attention: right beyond"] < 0.6


def test_where_there_is_no_state_attention_is_as_good_and_the_claim_does_not_hold():
    result = lab.recurrence(stateful=False, length=6, n_steps=50)
    assert not result.verdict
    assert "attention loses track" in result.finding
    assert result.numbers["cups, attention: right beyond"] > 0.9


@pytest.mark.parametrize("link", ["recurrence", "self-attention"])
def test_a_link_lets_step_2_know_step_1_and_turns_the_verdict(link):
    result = lab.recurrence(link=link, length=2, n_steps=1)
    assert not result.verdict
    assert "nothing leads from step 1 to step 2" in result.finding
    assert result.numbers["step 2 of the encoder knows step 1: bare"] > 0


@pytest.mark.parametrize(("link", "moves"), [("none", False), ("recurrence", True)])
def test_changing_step_1_moves_step_2_only_where_there_is_a_link(link, moves):
    torch.manual_seed(0)
    states = _states(link)
    x = torch.randn(1, 3, 16, dtype=torch.float64)
    other = x.clone()
    other[:, 0] += 1
    assert torch.equal(states(x)[:, 1:], states(other)[:, 1:]) is not moves


def test_parity_counts_the_ones():
    torch.manual_seed(0)
    bits, odd = parity(3, 7)
    for row, states in zip(bits.tolist(), odd.tolist(), strict=True):
        assert states == [sum(row[: t + 1]) % 2 for t in range(7)]
    assert set(bits.flatten().tolist()) == {0, 1}


def test_the_ball_goes_where_its_cup_goes():
    swaps, places = cups(5, 9)
    for row, seen in zip(swaps.tolist(), places.tolist(), strict=True):
        under = ["ball", "empty", "empty"]
        for swap, place in zip(row, seen, strict=True):
            i, j = [(0, 1), (1, 2), (0, 2)][swap]
            under[i], under[j] = under[j], under[i]
            assert under[place] == "ball"


def test_an_echo_asks_for_the_symbol_itself():
    symbols, states = echo(cups)(4, 6)
    assert torch.equal(symbols, states)


def test_the_same_seed_gives_the_same_numbers_and_leaves_the_generator_alone():
    first = lab.recurrence(length=2, n_steps=2)
    torch.rand(1)
    before = torch.random.get_rng_state()
    assert lab.recurrence(length=2, n_steps=2).numbers == first.numbers
    assert torch.equal(before, torch.random.get_rng_state())
