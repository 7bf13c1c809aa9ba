import numpy as np
import pytest
import torch
from tiny import tiny_config

from regard.models.transformer import Transformer
from regard.training.flops import count_forward, flop_formula

VARIANTS = [
    {},
    {"positions": "learned", "max_len": 100},
    {"score": "additive"},
    {"score": "general"},
    {"window": "local_p"},
    {"score": "location"},
]


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_the_formula_gives_torchs_count_at_any_length(changes):
    model = Transformer(tiny_config(**changes))
    formula = flop_formula(model)
    for n_source, n_target in ((25, 31), (40, 26), (64, 100)):  # beyond location's table
        counted = count_forward(model, n_source, n_target)
        assert formula.forward(n_source, n_target) == pytest.approx(counted, rel=1e-9)


def test_the_count_is_that_of_the_matrix_products():
    model = Transformer(tiny_config(n_layers=1))
    s, t, d, f, v = 5, 7, 12, 20, 13
    encoder = 2 * s * (4 * d * d + 2 * d * f) + 2 * 2 * s * s * d
    decoder = 2 * t * (4 * d * d + 2 * d * f) + 2 * 2 * t * t * d
    cross = 2 * (2 * t + 2 * s) * d * d + 2 * 2 * t * s * d
    assert count_forward(model, s, t) == encoder + decoder + cross + 2 * t * d * v


def test_training_costs_three_forwards_a_row():
    formula = flop_formula(Transformer(tiny_config()))
    each = formula.training(np.array([6, 2]), np.array([9, 5]))
    assert each == pytest.approx(3 * (formula.forward(6, 9) + formula.forward(2, 5)))


def test_the_model_is_left_alone():
    model = Transformer(tiny_config())
    before = [p.clone() for p in model.parameters()]
    flop_formula(model)
    assert all(map(torch.equal, before, model.parameters()))
