"""GELU for half precision, and ReLU behind a norm, against torch's."""

import torch
import torch.nn.functional as F
from torch import nn

from regard.kernels.activations import HalfGelu, gelu, norm_relu, normal_share


def test_the_share_of_the_normal_distribution():
    x = torch.linspace(-9, 9, 1001, dtype=torch.float64)
    wanted = torch.special.ndtr(x)
    torch.testing.assert_close(normal_share(x)[0], wanted, rtol=0, atol=1e-7)


def test_values_and_slopes_are_those_of_torch_to_the_last_bit_that_counts(rng):
    x = (torch.randn(4000, generator=rng) * 3).bfloat16().requires_grad_()
    wanted = F.gelu(x.float())
    (slope,) = torch.autograd.grad(wanted.sum(), x)
    found = HalfGelu.apply(x)
    torch.testing.assert_close(found.float(), wanted, rtol=2**-8, atol=1e-6)
    (found_slope,) = torch.autograd.grad(found.sum(), x)
    torch.testing.assert_close(found_slope.float(), slope.float(), rtol=2**-7, atol=1e-5)


def test_elsewhere_it_is_torchs(rng):
    x = torch.randn(40, generator=rng)
    assert torch.equal(gelu(x), F.gelu(x))


def test_a_norm_and_a_relu_in_one(rng):
    norm = nn.LayerNorm(6)
    nn.init.normal_(norm.weight)
    nn.init.normal_(norm.bias)
    x = torch.randn(3, 4, 6, generator=rng)
    plain = norm(x).relu()
    assert (plain == 0).any() and (plain > 0).any()  # noqa: PT018  both sides of the ReLU
    torch.testing.assert_close(norm_relu(x, norm.weight, norm.bias, norm.eps), plain)
    with torch.autocast("cpu", torch.bfloat16):
        narrow = norm_relu(x, norm.weight, norm.bias, norm.eps)
    assert narrow.dtype == torch.bfloat16
    torch.testing.assert_close(narrow, plain.bfloat16())
