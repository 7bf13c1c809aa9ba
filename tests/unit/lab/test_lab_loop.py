import pytest
import torch

from regard import lab
from regard.lab.claims.loop import bahdanau_steps, dependence


def test_word_by_word_equals_all_at_once():
    result = lab.loop(length=9)
    assert result.verdict
    assert result.numbers["largest difference"] < 1e-12
    assert result.numbers["times faster"] > 0


def test_a_query_that_waits_for_an_output_cannot_be_asked_at_once():
    result = lab.loop(feed_back=True, length=9)
    assert not result.verdict
    assert result.numbers["largest difference"] > 1e-3


def test_of_bahdanaus_decoder_only_contexts_and_states_stay_in_the_loop():
    (table,) = lab.loop(length=2).tables
    assert {row[0]: row[3] for row in table.rows} == {
        "keys W_k h": "before it",
        "words W y": "before it",
        "contexts c": "in it",
        "states s": "in it",
        "logits": "after it",
    }


def test_a_query_needs_every_context_before_it_and_none_after():
    steps = bahdanau_steps(4, seed=0)
    for t, asks in enumerate(steps.before):
        for s, context in enumerate(steps.contexts):
            assert (dependence(asks, context) > 1e-9) == (s < t)


def test_dependence_is_the_norm_of_torchs_jacobian():
    x = torch.tensor([0.3, -0.7, 0.2], dtype=torch.float64, requires_grad=True)
    full = torch.autograd.functional.jacobian(lambda x: x.sin() * x.sum(), x)
    assert dependence(x.sin() * x.sum(), x) == pytest.approx(full.norm().item())
    assert dependence(x.sin(), torch.ones(2, requires_grad=True)) == 0
