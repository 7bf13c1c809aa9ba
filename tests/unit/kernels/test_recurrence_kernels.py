"""LSTMs as they are recorded, run by Triton's interpreter, beside the loops that can be read."""

import importlib.util
import os

import pytest
import torch

from regard.kernels import recurrence as kernels
from regard.kernels.call import reference_only
from regard.kernels.recurrence import StateWeights, attending_lstm, unrolled
from regard.layers.attention import MemoryAttention
from regard.layers.attentive_cell import looking, unroll_attending
from regard.layers.fast_forward import FastForwardLayer
from regard.layers.recurrence import CellState, ContextLSTM, Recurrence

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None or os.environ.get("TRITON_INTERPRET") != "1",
    reason="needs Triton and its interpreter, which is on where there is no GPU (conftest.py)",
)
B, T, S, D = 5, 4, 7, 6


@pytest.fixture
def recorded(monkeypatch):
    """As on a GPU whose launches are recorded."""
    monkeypatch.setattr(kernels, "is_recorded", lambda _x: True)


def gradients(outcome, inputs):
    total = sum((x * torch.linspace(-1, 1, x.numel()).view(x.shape)).sum() for x in outcome)
    return torch.autograd.grad(total, inputs)


def readable(run):
    """The same call, by the loops of ``regard.layers``."""

    def slowly():
        with pytest.MonkeyPatch.context() as patch, reference_only():
            patch.setattr(kernels, "is_recorded", lambda _x: False)
            return run()

    return slowly


def assert_agree(calls, inputs):
    """The same numbers and gradients from both, inputs being of both."""
    (one, one_grads), (other, other_grads) = (
        (outcome, gradients(outcome, inputs)) for outcome in (call() for call in calls)
    )
    torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(one_grads, other_grads, rtol=1e-4, atol=1e-5)
    assert all(grad.abs().max() > 0 for grad in one_grads)


@pytest.mark.parametrize("lengths", [None, (4, 1, 3, 0, 2)], ids=str)
@pytest.mark.parametrize(
    ("cell", "options"),
    [
        ("lstm", {}),
        ("lstm", {"bidirectional": True, "n_layers": 2}),
        ("lstm", {"d_out": 3}),
        ("gru", {}),
        ("gru", {"bidirectional": True, "n_layers": 2}),
    ],
)
def test_a_recorded_recurrence_is_the_one_step_by_step(rng, recorded, cell, options, lengths):
    layer = Recurrence(cell, 3, D, **options)
    x = torch.randn(B, T, 3, generator=rng, requires_grad=True)
    mask = None if lengths is None else torch.arange(T) < torch.tensor(lengths)[:, None]
    start = layer.start(x)
    states = [
        torch.randn(one.shape, generator=rng).requires_grad_()
        for one in (start.h, start.c)
        if one is not None
    ]

    def run():
        out, state = layer(x, mask, CellState(states[0], states[1] if cell == "lstm" else None))
        return out, state.h, *([] if state.c is None else [state.c])

    assert_agree((run, readable(run)), [x, *states, *layer.parameters()])


def test_a_recorded_layer_with_fast_forward_is_the_one_step_by_step(rng, recorded):
    layer = FastForwardLayer(3, D)
    x = torch.randn(B, T, 3, generator=rng, requires_grad=True)

    def run():
        passed, state = layer(x)
        return passed.f, passed.h, state.h, state.c

    assert_agree((run, readable(run)), [x, *layer.parameters()])


def made(score, d_out):
    torch.manual_seed(3)
    attention = MemoryAttention(d_out or D, 5, score=score)
    cell = ContextLSTM(3, D, 5, d_out=d_out)
    return attention, cell


@pytest.mark.parametrize("d_out", [None, 3])
@pytest.mark.parametrize("score", ["additive", "tanh_product"])
def test_a_recorded_lstm_that_looks_is_the_one_step_by_step(rng, recorded, score, d_out):
    attention, cell = made(score, d_out)
    words, memory = (
        torch.randn(shape, generator=rng, requires_grad=True) for shape in ((B, T, 3), (B, S, 5))
    )
    mask = (torch.arange(S) < torch.tensor([7, 1, 4, 6, 3])[:, None])[:, None, None]
    h, c = (torch.randn(B, 1, width, generator=rng).requires_grad_() for width in (d_out or D, D))

    def run():
        values = torch.cat((cell.context(memory), memory), dim=-1)  # and more than gates need
        keys_values = attention.project(memory, values)
        steps = unroll_attending(
            attention, cell, cell.words(words), keys_values, mask, CellState(h, c), first=0
        )
        return steps.before, steps.after, steps.contexts, steps.last.h, steps.last.c

    def readable():
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(kernels, "is_recorded", lambda _x: False)
            return run()

    assert_agree(
        (run, readable), [words, memory, h, c, *attention.parameters(), *cell.parameters()]
    )


def test_a_source_without_a_word_gives_nothing(rng):
    attention, cell = made("additive", None)
    memory = torch.randn(2, S, 5, generator=rng)
    mask = torch.zeros(2, 1, 1, S, dtype=torch.bool)
    keys_values = attention.project(memory, cell.context(memory))
    found = looking(attention, cell, keys_values, mask)
    _, contexts, _ = attending_lstm(
        torch.randn(2, T, 4 * D, generator=rng),
        found,
        StateWeights(cell.state.weight),
        (torch.zeros(2, D), torch.zeros(2, D)),
    )
    assert (contexts == 0).all()


def test_a_long_source_and_other_scores_are_left_to_the_loop():
    attention, cell = made("additive", None)
    short, long = (torch.zeros(1, n, 5) for n in (128, 129))

    def found(attention, memory):
        mask = torch.ones(1, 1, 1, memory.shape[1], dtype=torch.bool)
        return looking(attention, cell, attention.project(memory, cell.context(memory)), mask)

    assert found(attention, short) is not None
    assert found(attention, long) is None
    for options in ({"score": "general"}, {"score": "additive", "window": "local_m"},
                    {"score": "additive", "normaliser": "hard"}):  # fmt: skip
        assert found(MemoryAttention(D, 5, **options), short) is None


def test_states_are_narrow_and_the_memory_is_not(rng):
    weights = StateWeights(torch.randn(4 * D, D, generator=rng), torch.zeros(4 * D))
    read = torch.randn(B, T, 4 * D, generator=rng)
    before = (torch.zeros(B, D), torch.zeros(B, D))
    with torch.autocast("cpu", torch.bfloat16):
        states, (h, c) = unrolled("lstm", read, weights, before)
    assert (states.dtype, h.dtype, c.dtype) == (torch.bfloat16, torch.bfloat16, torch.float32)
    exact, _ = unrolled("lstm", read, weights, before)
    torch.testing.assert_close(states.float(), exact, rtol=0.1, atol=0.05)
