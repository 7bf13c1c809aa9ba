"""A linear layer for few rows, in Triton: reading the weights is all there is to do.

Libraries make matrix units ready for a product that has no second dimension. Here a program
multiplies some rows of the weights with each of the few inputs, and starts at once.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 4
"""Outputs of one program: so many programs that a narrow layer keeps the chip busy."""


@triton.jit
def _linear(
    x, weight, bias, out, n_in, n_out,
    ROWS: tl.constexpr, BIAS: tl.constexpr, RELU: tl.constexpr, BLOCK: tl.constexpr,
    WIDTH: tl.constexpr,
):  # fmt: skip
    n = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    k = tl.arange(0, WIDTH)
    there = n < n_out
    places = weight + n[:, None] * n_in + k[None, :]
    part = tl.load(places, mask=there[:, None] & (k < n_in)[None, :], other=0.0).to(tl.float32)
    for row in tl.static_range(ROWS):
        asked = tl.load(x + row * n_in + k, mask=k < n_in, other=0.0).to(tl.float32)
        found = tl.sum(part * asked[None, :], 1)
        if BIAS:
            found += tl.load(bias + n, mask=there, other=0.0).to(tl.float32)
        if RELU:
            found = tl.maximum(found, 0.0)
        tl.store(out + row * n_out + n, found.to(out.dtype.element_ty), mask=there)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None, *, relu: bool = False) -> Tensor:
    """x (R, K), weight (N, K), all contiguous -> (R, N), perhaps rectified."""
    (R, K), N = x.shape, weight.shape[0]
    out = torch.empty(R, N, dtype=x.dtype, device=x.device)
    _linear[(triton.cdiv(N, BLOCK),)](
        x, weight, bias, out, K, N,
        ROWS=R, BIAS=bias is not None, RELU=relu, BLOCK=BLOCK, WIDTH=triton.next_power_of_2(K),
        num_warps=4,
    )  # fmt: skip
    return out
