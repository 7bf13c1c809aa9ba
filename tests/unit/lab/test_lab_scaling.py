import math

import pytest
import torch

from regard import lab
from regard.lab.claims.scaling import Lookup, _slope, _softness, questions, trained


def small(**changes):
    return lab.scaling(**{"widths": (4, 64, 512), "trained_widths": (4, 8), "steps": 3, **changes})


def test_divided_scores_keep_the_softmax_alive():
    result = small()
    assert result.verdict
    assert min(result.numbers["slope of the softmax: scaled_dot"]) > 0.2


def test_undivided_scores_kill_it():
    result = small(divided=False)
    assert not result.verdict
    assert result.numbers["slope of the softmax: dot"][-1] < 1e-2


def test_the_slope_is_the_norm_of_the_jacobian(rng):
    scores = torch.randn(5, generator=rng, dtype=torch.float64)
    jacobian = torch.autograd.functional.jacobian(lambda s: s.softmax(dim=-1), scores)
    assert _slope(scores.softmax(dim=-1)).item() == pytest.approx(jacobian.square().sum().sqrt())


def test_two_keys_alike_have_the_softest_softmax_there_is():
    assert _slope(torch.tensor([0.5, 0.5])).item() == pytest.approx(0.5)  # four entries of 1/4
    assert _slope(torch.tensor([1.0, 0.0])).item() == 0


def test_entropy_is_that_of_the_definition():
    keys = torch.Generator().manual_seed(0)
    q = torch.randn(1, 1, 3, generator=keys, dtype=torch.float64)
    k = torch.randn(1, 2, 3, generator=keys, dtype=torch.float64)
    first, second = ((q[0, 0] @ k[0, i]).item() for i in range(2))
    p = 1 / (1 + math.exp(second - first))
    entropy = -(p * math.log2(p) + (1 - p) * math.log2(1 - p))
    assert _softness("dot", 3, 0, n_queries=1, n_keys=2).entropy == pytest.approx(entropy)


def test_a_question_has_one_answer_beside_its_key(rng):
    for keys, values, asked, answer in zip(*(x.tolist() for x in questions(20, rng)), strict=True):
        assert len(set(keys)) == len(keys)
        assert values[keys.index(asked)] == answer


def test_a_narrow_model_learns_without_the_division_and_leaves_the_generator_alone():
    state = torch.random.get_rng_state()
    model = trained("dot", 16, steps=350, seed=0, n_models=1)
    assert model.accuracy > 0.95
    assert model.after > model.before
    assert torch.equal(torch.random.get_rng_state(), state)


def test_the_division_is_all_that_differs():
    torch.manual_seed(0)
    undivided, divided = Lookup("dot", 16), Lookup("scaled_dot", 16)
    divided.load_state_dict(undivided.state_dict())
    assert undivided.spread() == pytest.approx(4 * divided.spread())
