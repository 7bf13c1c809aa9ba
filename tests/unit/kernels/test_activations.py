"""GELU for half precision, against torch's."""

import torch
import torch.nn.functional as F

from regard.kernels.activations import HalfGelu, gelu, normal_share


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
