"""One count for all systems: against the products of each paper, and torch's own in training."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from regard.kernels.call import reference_only
from regard.models.presets import ModelSettings, build, presets_for, resolve
from regard.models.settings import SequenceConfig
from regard.training.flops import BACKWARD, count_forward

D, S, T, V = 6, 5, 7, 13


def system(name):
    sizes = {"n_heads": 2, "n_layers": 2, "d_ff": 10} if name == "transformer" else {}
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
