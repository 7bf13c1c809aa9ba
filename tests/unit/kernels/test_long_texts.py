"""Packed texts that no group can hold: torch's kernel, which there is on a GPU alone, by a stand-in
that leaves garbage where that one writes nothing.
"""

import sys
from types import ModuleType

import pytest
import torch

from regard.functional.attend import attend
from regard.functional.packing import PackedMask
from regard.functional.scores import scaled_dot_factors
from regard.kernels import sdpa, table
from regard.kernels.call import Call

LENGTHS, N = (3, 1, 5), 12


def texts():
    numbers = torch.full((N,), -1, dtype=torch.int32)
    numbers[: sum(LENGTHS)] = torch.arange(3, dtype=torch.int32).repeat_interleave(
        torch.tensor(LENGTHS)
    )
    bounds = torch.tensor([0, 3, 4, 9], dtype=torch.int32)
    return PackedMask(numbers, numbers, torch.zeros(0, 4), 0, bounds, bounds, longest=5)


class Unwritten(torch.autograd.Function):
    """Attention within texts; nan beyond them, in what is found and in all gradients."""

    @staticmethod
    def forward(ctx, q, k, v, causal):
        with torch.enable_grad():
            given = [x.detach().requires_grad_() for x in (q, k, v)]
            heads = (x.transpose(0, 1).unsqueeze(0) for x in given)
            found = attend(*heads, score=dot, mask=seen(causal)).values
            found = found[0].transpose(0, 1)
        ctx.kept = (given, found)
        return found.detach().index_fill(0, torch.arange(sum(LENGTHS), N), torch.nan)

    @staticmethod
    def backward(ctx, gradient):
        given, found = ctx.kept
        grads = torch.autograd.grad(found, given, gradient)
        return *(x.index_fill(0, torch.arange(sum(LENGTHS), N), torch.nan) for x in grads), None


def seen(causal):
    dense = texts().dense()
    return dense.tril() if causal else dense


def dot(q, k):
    return scaled_dot_factors(q, k).product()


@pytest.mark.parametrize("causal", [False, True])
def test_what_is_in_no_text_is_nothing_and_learns_nothing(rng, monkeypatch, causal):
    stand_in = ModuleType("torch.nn.attention.varlen")
    stand_in.varlen_attn = lambda q, k, v, *_bounds, scale, window_size: Unwritten.apply(
        q, k, v, window_size == (-1, 0)
    )
    monkeypatch.setitem(sys.modules, "torch.nn.attention.varlen", stand_in)
    given = [torch.randn(1, 2, N, 4, generator=rng, requires_grad=True) for _ in range(3)]
    q, k, v = given
    found = sdpa.long_texts(Call(scaled_dot_factors(q, k), v, texts(), causal=causal))
    wanted = attend(q, k, v, score=dot, mask=seen(causal)).values
    n = sum(LENGTHS)
    torch.testing.assert_close(found[:, :, :n], wanted[:, :, :n])
    assert not found[:, :, n:].any()
    slope = torch.randn(found.shape, generator=rng)
    slope[:, :, n:] = 0.0
    grads = torch.autograd.grad(found, given, slope)
    for got, right in zip(grads, torch.autograd.grad(wanted, given, slope), strict=True):
        torch.testing.assert_close(got[:, :, :n], right[:, :, :n])
        assert not got[:, :, n:].any()


def test_products_of_sums_with_float32_are_of_one_type(rng, monkeypatch):
    """Queries and values to which float32 was added, under autocast, beside keys of 16 bits."""
    seen_types = []
    stand_in = ModuleType("torch.nn.attention.varlen")

    def varlen_attn(q, k, v, *_bounds, scale, window_size):
        seen_types.extend(x.dtype for x in (q, k, v))
        return v

    stand_in.varlen_attn = varlen_attn
    monkeypatch.setitem(sys.modules, "torch.nn.attention.varlen", stand_in)
    q, k, v = (torch.randn(1, 1, N, 4, generator=rng) for _ in range(3))
    with torch.autocast("cpu", torch.bfloat16):
        call = Call(scaled_dot_factors(q, k.bfloat16()), v, texts(), causal=False)
        assert call.half
        sdpa.long_texts(call)
        doubles = Call(scaled_dot_factors(q.double(), k.double()), v.double(), None, causal=False)
        assert not doubles.half  # autocast leaves them alone
    assert seen_types == [torch.bfloat16] * 3


@pytest.mark.parametrize(
    ("width", "half", "name"),
    [
        (64, False, "short texts"),
        (256, True, "long texts"),
        (256, False, "sdpa"),
        (512, True, "sdpa"),
        (20, True, "sdpa"),
    ],
)
def test_texts_are_packed_where_a_kernel_is_made_for_the_width(monkeypatch, width, half, name):
    monkeypatch.setattr(Call, "on_gpu", property(lambda _call: True))
    monkeypatch.setattr(table, "HAS_TRITON", True)
    x = torch.zeros(1, 1, N, width, dtype=torch.bfloat16 if half else torch.float32)
    grouped = texts()._replace(block=64)
    assert table.choose(Call(scaled_dot_factors(x, x), x, grouped, causal=False)).name == name
    assert table.packed_kernel(width, half=half) == (name != "sdpa")
