import pytest
import torch

from regard import lab
from regard.lab.claims.parameterless import (
    _BAD,
    _GOOD,
    _NOT,
    _WORDS,
    _embedding,
    _exchanged,
    _model,
    _sentences,
)


def test_the_embedding_learns_all_there_is_to_learn():
    result = lab.parameterless(steps=600, n_models=1)
    assert result.verdict
    assert result.numbers["parameters of the attention"] == 0
    assert result.numbers["share right: no attention"] < 0.6


def test_nothing_is_learned_over_a_frozen_embedding():
    result = lab.parameterless(frozen=True, steps=2, n_models=1)
    assert not result.verdict
    assert (
        result.numbers["share right: after training"]
        == result.numbers["share right: before training"]
    )


def test_the_model_is_the_one_described():
    rows = torch.tensor([[1.0, 2.0], [0.0, -1.0]])  # scores 5, -2, 1
    first = torch.tensor([5.0, -2.0]).softmax(dim=0)[0]
    second = torch.tensor([-2.0, 1.0]).softmax(dim=0)[0]
    logit = _model(rows, torch.tensor([[0, 1]]))
    assert logit.item() == pytest.approx(4 * (first + second).item() / 2)
    assert _model(rows, torch.tensor([[0, 1]]), attentive=False).item() == pytest.approx(2.0)


def test_exchanged_rows_turn_every_sentence_about():
    rows = _embedding(0)
    ids = torch.tensor([[_WORDS.index(word) for word in ("it", "was", "not", "great")]])
    other = torch.tensor([[_WORDS.index(word) for word in ("it", "was", "not", "awful")]])
    assert torch.equal(_model(_exchanged(rows), ids), _model(rows, other))
    assert not torch.equal(_model(rows, ids), _model(rows, other))


def test_a_sentence_means_well_if_good_or_not_bad(rng):
    ids, good = _sentences(200, rng)
    for sentence, means_well in zip(ids.tolist(), good.tolist(), strict=True):
        words = [_WORDS[i] for i in sentence]
        kind = [word in _GOOD for word in words if word in _GOOD or word in _BAD]
        assert len(kind) == 1
        assert means_well == (kind[0] != ("not" in words))
        assert sentence.count(_NOT) <= 1


def test_runs_are_the_same_for_a_seed_and_leave_the_generator_alone():
    state = torch.random.get_rng_state()
    first = lab.parameterless(steps=3, n_models=1, seed=5).numbers
    assert lab.parameterless(steps=3, n_models=1, seed=5).numbers == first
    assert lab.parameterless(steps=3, n_models=1, seed=6).numbers != first
    assert torch.equal(torch.random.get_rng_state(), state)
