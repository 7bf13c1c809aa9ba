"""One count for all systems: against the products of each paper, and torch's own in training."""

import numpy as np
import pytest
import torch
from systems import has_blocks
from torch.utils.flop_counter import FlopCounterMode

from regard.kernels.call import reference_only
from regard.models.presets import ModelSettings, build, presets_for, resolve
from regard.models.settings import SequenceConfig
from regard.training.flops import BACKWARD, count_forward, flop_formula

D, S, T, V = 6, 5, 7, 13
SIZES = {"n_source_vocab": V, "n_target_vocab": V, "shared_vocab": True}


def system(name):
    sizes = {"n_heads": 2, "n_layers": 2, "d_ff": 10} if has_blocks(name) else {}
    settings = ModelSettings(preset=name, d_model=D, **sizes)
    config = resolve(settings, n_source_vocab=V, n_target_vocab=V, shared_vocab=True)
    return build(config)


def test_flops_of_cs224ns_decoder_are_those_of_its_products():
    lstm = 2 * 4 * D * (D + D)  # a step of one layer: four gates of word and state
    attention = 2 * S * D + 2 * S * D  # a step: scores, then the weighted sum
    words = 2 * (2 * D) * V
    assert count_forward(system("cs224n2019"), S, T) == S * lstm + T * (lstm + attention + words)


def test_flops_of_luongs_decoder_are_those_of_its_products():
    lstm = 2 * 4 * D * (D + D)
    fed = 2 * 4 * D * (2 * D + D)  # the first layer reads the word and the last attentional state
    general = 2 * D * D
    attention = 2 * S * D + 2 * S * D
    join, words = 2 * (2 * D) * D, 2 * D * V
    step = fed + lstm + general + attention + join + words
    assert count_forward(system("luong2015"), S, T) == S * 2 * lstm + T * step


def test_flops_of_convs2s_are_those_of_its_products():
    convolution, linear = (
        2 * (3 * D) * (2 * D),
        2 * D * D,
    )  # a kernel of 3, to gates and what passes
    attention = 2 * S * D + 2 * S * D
    layer = convolution + linear + attention + linear  # with a query, and what is made of a context
    source = linear + 4 * convolution + linear
    target = linear + 3 * layer + linear + 2 * D * V
    assert count_forward(system("convs2s2017"), S, T) == S * source + T * target


def test_flops_of_bytenet_are_those_of_its_products():
    block = 2 * (2 * D) * D + 2 * (3 * D) * D + 2 * D * (2 * D)
    columns = 6  # 1.2 · 5
    words = 2 * (2 * D) * V
    assert count_forward(system("bytenet2016"), S, T) == (columns + T) * 10 * block + T * words


@pytest.mark.parametrize("name", presets_for(SequenceConfig))
def test_training_costs_what_torch_counts_forward_and_backward(name):
    """Less only by the gradients of states that are zeros to begin with."""
    model, n_rows = system(name), 3
    source, target = torch.randint(4, V, (n_rows, S)), torch.randint(4, V, (n_rows, T))
    with reference_only(), FlopCounterMode(display=False) as counter:
        model(source, target).sum().backward()
    said = BACKWARD * n_rows * count_forward(model, S, T)
    assert 0.96 * said < counter.get_total_flops() <= said


def test_the_formula_holds_where_keys_are_compressed():
    model = system("dmca2018")
    formula = flop_formula(model)
    for n_source, n_target in ((12, 6), (30, 3), (9, 21)):
        said = formula.forward(n_source, n_target)
        assert said == pytest.approx(count_forward(model, n_source, n_target))
    assert formula.forward(50, 20) == pytest.approx(count_forward(model, 50, 20), rel=0.02)


@pytest.mark.parametrize(("window", "keys"), [("block", 20), ("local_m", 11)])
def test_a_window_costs_the_keys_that_it_meets(window, keys):
    """Of texts within one window nothing is spared; each further position meets as many keys."""

    def formula(window):
        settings = ModelSettings(
            preset="transformer-d", d_model=8, n_layers=2, n_heads=2, d_ff=16, windows=(window,)
        )
        return flop_formula(build(resolve(settings, **SIZES)))

    whole, narrow = formula("global"), formula(window)  # half_width is 10
    assert narrow.forward(keys - 8, 8) == pytest.approx(whole.forward(keys - 8, 8))
    a_pair = 2 * 2 * (8 + 8)  # layers × (multiply, add) × (q·k, weights·v)
    assert whole.forward(600, 400) - narrow.forward(600, 400) == pytest.approx(
        a_pair * 1000 * (1000 - keys)
    )
    lengths = np.array([600, 3]), np.array([400, 2])
    assert narrow.training(*lengths) == pytest.approx(
        BACKWARD * (narrow.forward(600, 400) + narrow.forward(3, 2))
    )


def test_predicting_the_source_is_counted():
    model = system("transformer-d")
    plain, both = flop_formula(model), flop_formula(model, with_source=True)
    config = model.config
    more = both.coefficients[1] - plain.coefficients[1]
    assert more == pytest.approx(2 * config.d_model * config.n_target_vocab)
