"""The sub-layers of a decoding step for so few rows that matrix units would mostly wait.

A row goes through a sub-layer in two kernels that do everything around their product, too. What is
handed on is the stream z *before* it is normalised, with the norm that belongs to it: the next
product normalises on its way in. Post-norm and pre-norm differ only in what is added to.
"""

from __future__ import annotations

from typing import Literal

import torch.nn.functional as F
from torch import Tensor

from regard.kernels import steps
from regard.kernels.gpu import triton_kernels
from regard.kernels.steps import Best

MOST_ROWS = 4
"""For so few rows all that matters is reading the weights."""
MOST_TOKENS = 16
"""So many best tokens are found while the vocabulary is read."""
Norm = tuple[Tensor, Tensor | None, float]
"""Weight (D,), bias (D,) and epsilon of a LayerNorm; without a bias, of an RMSNorm."""
Then = Literal["none", "relu", "gelu", "gelu_tanh", "silu", "swiglu"]
"""What is done to the result of a product. ``swiglu`` halves it: silu(first half) · second half."""


def enter(
    z: Tensor,
    norm: Norm | None,
    weight: Tensor,
    bias: Tensor | None,
    *,
    then: Then = "none",
    out: Tensor | None = None,
) -> Tensor:
    """z (R, K), normalised where there is a norm, through a linear layer (N, K) -> (R, N).

    ``out`` is where to write it, and in which numbers; else it is as the weights are.
    """
    if z.is_cuda:
        return triton_kernels("small_batch").enter(z, norm, weight, bias, then=then, out=out)
    found = _done(F.linear(normed(z, norm).to(weight.dtype), weight, bias), then)
    return found if out is None else out.copy_(found)


def _done(y: Tensor, then: Then) -> Tensor:
    match then:
        case "relu":
            return y.relu_()
        case "gelu":
            return F.gelu(y)
        case "gelu_tanh":
            return F.gelu(y, approximate="tanh")
        case "silu":
            return F.silu(y)
        case "swiglu":
            first, beside = y.chunk(2, dim=-1)
            return F.silu(first) * beside
    return y


def leave(x: Tensor, weight: Tensor, bias: Tensor | None, z: Tensor, norm: Norm | None) -> Tensor:
    """x (R, K) through a linear layer (N, K), added to z (R, N), normalised or not; float32."""
    if x.is_cuda:
        return triton_kernels("small_batch").leave(x, weight, bias, z, norm)
    return normed(z, norm) + F.linear(x, weight, bias).float()


def best_tokens(z: Tensor, norm: Norm, tokens: Tensor, n: int, *, n_hidden: int) -> Best:
    """The n best tokens of normalised rows z (R, D) among ``tokens`` (V, D): logits never exist."""
    if z.is_cuda:
        return Best(*triton_kernels("small_batch").best_tokens(z, norm, tokens, n, n_hidden))
    logits = F.linear(normed(z, norm).to(tokens.dtype), tokens).float()
    return steps.best_tokens(logits, n, n_hidden=n_hidden)


def normed(z: Tensor, norm: Norm | None) -> Tensor:
    """z (R, D) in float32, normalised where there is a norm."""
    if norm is None:
        return z.float()
    weight, bias, eps = norm
    if bias is None:
        return F.rms_norm(z.float(), z.shape[-1:], weight.float(), eps)
    return F.layer_norm(z.float(), z.shape[-1:], weight.float(), bias.float(), eps)


def fits(n_rows: int, n_tokens: int = 1) -> bool:
    """Whether there are so few rows, and so few best tokens wanted."""
    return n_rows <= MOST_ROWS and n_tokens <= MOST_TOKENS
