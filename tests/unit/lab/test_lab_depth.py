import pytest
import torch

from regard import lab
from regard.lab.claims.depth import echoes, gradient_norms, stack

DEEP = {"depths": (1, 8), "steps": 80}


def test_a_stack_of_lstms_falls_silent_where_a_transformer_still_learns():
    result = lab.depth(**DEEP)
    assert result.verdict
    assert result.numbers["LSTM: gradient that arrives"][-1] < 1e-2
    assert result.numbers["Transformer: gradient that arrives"][-1] > 0.3


def test_residual_connections_let_lstms_learn_at_every_depth():
    result = lab.depth(residual=True, **DEEP)
    assert not result.verdict
    assert min(result.numbers["LSTM: right"]) > 0.9
    assert "the LSTMs fail at 8 layers" in result.finding


def test_the_symbol_before_is_the_answer(rng):
    ids, answers = echoes(3, rng)
    for row, wanted in zip(ids.tolist(), answers.tolist(), strict=True):
        assert wanted == [row[t - 1] for t in range(1, len(row))]


@pytest.mark.parametrize("kind", ["LSTM", "Transformer"])
def test_gradients_are_those_of_the_layers_outputs(kind, rng):
    model = stack(kind, 2, residual=False)
    ids, _ = echoes(2, rng)
    first, last = gradient_norms(model, lambda: model(ids).sum())
    states = []
    model.layers[1].register_forward_pre_hook(lambda _layer, given: states.append(given[0]))
    (expected,) = torch.autograd.grad(model(ids).sum(), states)
    assert first == pytest.approx(expected.norm().item())
    assert last > 0
