"""Plain self-attention by one product and one kernel, which the layer takes where it may."""

import importlib.util
import os

import pytest
import torch
from torch import nn

from regard.kernels import self_attention
from regard.layers.attention import MultiHeadAttention

interpreted = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None or os.environ.get("TRITON_INTERPRET") != "1",
    reason="needs Triton and its interpreter, which is on where there is no GPU (conftest.py)",
)


def layer(**options):
    torch.manual_seed(0)
    one = MultiHeadAttention(32, 2, **options)
    for weight in one.parameters():
        nn.init.normal_(weight, std=0.3)
    return one


def joins(monkeypatch, found=None):
    """Kernels are taken here too; ``found`` collects who does."""
    joined = self_attention.joined_attention

    def told(*given):
        if found is not None:
            found.append(given)
        return joined(*given)

    monkeypatch.setattr(self_attention, "pays", lambda x, d_head: True)
    monkeypatch.setattr(self_attention, "joined_attention", told)


@interpreted
@pytest.mark.parametrize("bias", [True, False])
def test_values_and_gradients_are_those_of_three_products(rng, monkeypatch, bias):
    one, x = layer(bias=bias), torch.randn(2, 70, 32, generator=rng, requires_grad=True)
    slope = torch.randn(2, 70, 32, generator=rng)
    wanted = one(x)
    learned = (x, *one.parameters())
    gradients = torch.autograd.grad(wanted, learned, slope)
    calls = []
    joins(monkeypatch, calls)
    found = one(x)
    assert len(calls) == 1
    torch.testing.assert_close(found, wanted)
    # Three sums of 70 positions each become one: the last digits differ.
    torch.testing.assert_close(
        torch.autograd.grad(found, learned, slope), gradients, rtol=1e-4, atol=1e-4
    )


@interpreted
def test_it_can_be_compiled(rng, monkeypatch):
    joins(monkeypatch)
    one, x = layer(), torch.randn(2, 9, 32, generator=rng)
    with torch.autocast("cpu", enabled=False):
        compiled = torch.compile(one, backend="aot_eager", fullgraph=True)
        torch.testing.assert_close(compiled(x), one(x))


@pytest.mark.parametrize(
    "options",
    [
        {"window": "local_m", "half_width": 2},
        {"window": "causal"},
        {"positions": "rotary"},
        {"positions": "alibi"},
        {"score": "dot"},
        {"normaliser": "hard"},
        {"n_kv_heads": 1},
        {"d_value": 8},
    ],
)
def test_whoever_looks_another_way_does_so(rng, monkeypatch, options):
    sizes = {name: options.pop(name) for name in ("d_value",) if name in options}
    one, x = layer(**options, **sizes), torch.randn(2, 9, 32, generator=rng)
    wanted = one.eval()(x)
    calls = []
    joins(monkeypatch, calls)
    assert torch.equal(one(x), wanted)
    assert not calls


def test_masks_other_memories_and_watchers_are_heeded(rng, monkeypatch):
    one, x = layer(), torch.randn(2, 9, 32, generator=rng)
    calls = []
    joins(monkeypatch, calls)
    one(x, mask=torch.ones(9, 9, dtype=torch.bool))
    one(x, causal=True)
    one(x, x)
    one.view.register_forward_hook(lambda *_: None)
    one(x)
    assert not calls


def test_nobody_takes_it_without_a_gpu_and_a_compiler(rng):
    assert not self_attention.pays(torch.randn(2, 9, 32, generator=rng), 16)
