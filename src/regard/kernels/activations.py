"""Activations on a GPU that are bound by memory alone: GELU, and ReLU behind a norm.

The error function of CUDA's library takes longer than reading and writing the numbers. Abramowitz
and Stegun's formula 7.1.26 needs one exponential, which its derivative shares, and is off by less
than 1e-7. It is for compiled models, where all of it is one kernel.

A recorded network of many narrow layers spends its time reading and writing what is between two
products: there a norm, a ReLU and the rounding to 16 bits are compiled to one pass each way.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.kernels.call import is_recorded, product_type

P = 0.3275911
A = (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)
"""Constants of formula 7.1.26."""


def gelu(x: Tensor) -> Tensor:
    """x·Φ(x), Φ being the normal distribution's share below x (Hendrycks & Gimpel 2016)."""
    half = x.dtype in (torch.bfloat16, torch.float16)
    if x.is_cuda and half and torch.compiler.is_compiling():
        return HalfGelu.apply(x)
    return F.gelu(x)


def normal_share(x: Tensor) -> tuple[Tensor, Tensor]:
    """Φ(x), the share of the normal distribution below x, and exp(-x²/2); x in float32 or wider."""
    bell = torch.exp(-0.5 * x * x)
    t = 1 / (1 + P / math.sqrt(2) * x.abs())
    polynomial = t * (A[0] + t * (A[1] + t * (A[2] + t * (A[3] + t * A[4]))))
    above = 0.5 * polynomial * bell  # |x|
    return torch.where(x < 0, above, 1 - above), bell


class HalfGelu(torch.autograd.Function):
    """Computes in float32 and keeps nothing but its input for the way back."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """(…) -> (…)"""
        ctx.save_for_backward(x)
        wide = x.float()
        return (wide * normal_share(wide)[0]).to(x.dtype)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        """The slope is Φ(x) + x·φ(x)."""
        (x,) = ctx.saved_tensors
        wide = x.float()
        share, bell = normal_share(wide)
        slope = share + wide * bell / math.sqrt(2 * math.pi)
        return (gradient.float() * slope).to(x.dtype)


def norm_relu(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    """ReLU(LayerNorm(x)) over the last axis, in the type of products."""
    alone = not torch.compiler.is_compiling() and is_recorded(x)  # else it is part of a whole
    run = _compiled() if alone else _norm_relu
    normed: Tensor = run(x, weight, bias, eps, product_type(x))
    return normed


def _norm_relu(x: Tensor, weight: Tensor, bias: Tensor, eps: float, kind: torch.dtype) -> Tensor:
    return F.relu(F.layer_norm(x, x.shape[-1:], weight, bias, eps)).to(kind)


@cache
def _compiled() -> Any:
    return torch.compile(_norm_relu, dynamic=True)
