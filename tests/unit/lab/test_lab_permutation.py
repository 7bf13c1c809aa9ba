import itertools

import pytest
import torch

from regard import lab
from regard.lab.claims.permutation import SENTENCES, STEPS, _encoder, one_attention


def test_without_positions_no_depth_tells_the_orders_apart():
    result = lab.permutation(n_layers=3)
    assert result.verdict
    changes = result.numbers["largest change of a word by depth"]
    assert len(changes) == 3
    assert max(changes) < 1e-12
    assert min(result.numbers["with sinusoidal positions"]) > 0.1


def test_positions_tell_the_orders_apart():
    for positions in ("sinusoidal", "learned", "index", "rotary", "alibi"):
        result = lab.permutation(positions=positions, n_layers=2)
        assert not result.verdict
        assert result.numbers["largest change of o in one attention"] > 1e-3


def test_under_a_causal_mask_it_takes_two_layers_to_know_the_order_before():
    first, *deeper = lab.permutation(n_layers=3).numbers[
        "of mary under a causal mask without positions"
    ]
    assert first < 1e-12  # one layer sums over the same set
    assert min(deeper) > 1e-3


def test_the_proof_holds_step_by_step_for_every_shuffle():
    result = lab.permutation(n_layers=1)
    for step in STEPS:
        assert result.numbers[f"largest change of {step} in one attention"] < 1e-12
    none, placed = result.tables
    assert [row[0] for row in none.rows] == [
        f"{sentence} → {other}" for sentence, others in SENTENCES.items() for other in others
    ]
    assert all(float(cell) > 0.01 for row in placed.rows for cell in row[1:])


def test_shuffles_hold_the_same_words():
    for sentence, others in SENTENCES.items():
        for other in others:
            assert sorted(other.lower().split()) == sorted(sentence.lower().split())


def test_steps_of_the_proof_are_those_of_attention():
    found = one_attention("I want to sleep", "none", seed=0)
    assert torch.allclose(found["α"], found["e"].softmax(dim=-1))
    assert torch.allclose(found["o"], found["α"] @ found["v"])
    turned = one_attention("Sleep to I want", "none", seed=0)
    assert torch.allclose(found["o"][0], turned["o"][2])  # I


def test_the_changes_are_those_of_the_encoder_itself():
    encoder = _encoder("sinusoidal", 2, 0)
    everything = torch.ones(1, 1, 1, 3, dtype=torch.bool)
    plain = encoder(torch.tensor([[0, 1, 2]]), everything)[0]
    largest = 0.0
    for order in itertools.permutations(range(3)):
        out = encoder(torch.tensor([order]), everything)[0]
        for place, word in enumerate(order):
            largest = max(largest, (out[place] - plain[word]).abs().max().item())
    changes = lab.permutation(n_layers=2).numbers["with sinusoidal positions"]
    assert changes[-1] == pytest.approx(largest)


def test_the_global_generator_is_left_alone():
    before = torch.get_rng_state()
    lab.permutation(n_layers=1)
    assert torch.equal(before, torch.get_rng_state())
