"""A norm and a ReLU in one."""

import torch
from torch import nn

from regard.kernels.norms import norm_relu


def test_it_is_the_norm_and_then_the_relu(rng):
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
