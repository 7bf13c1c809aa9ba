"""The last layer and the loss in one: the logits of a whole batch never exist.

Logits are by far the largest tensor of a small translator: N tokens × V words, in float32 once for
themselves and again for their gradient. Here some rows are made at a time, turned into their
gradient on the spot, and multiplied back into the gradients of the states and of the matrix. Same
value, same gradients; ``regard.training.losses.cross_entropy`` is the plain form it is tested with.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.core.errors import ConfigError
from regard.functional.attend import wide
from regard.kernels.call import product_type
from regard.kernels.gpu import HAS_TRITON

ON_CPU, BYTES_PER_LOGIT_ON_GPU = 2**21, 64
"""Logits made at a time: few enough for a CPU's cache; on a GPU one for so many bytes it has."""
ALIGNED = 64
"""A GPU reads 16 bytes at a time: odd vocabularies are padded to a multiple of this."""


def linear_cross_entropy(
    states: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    *,
    pad: int,
    label_smoothing: float,
) -> Tensor:
    """states (N, D), weight (V, D), bias (V,), targets (N,) -> the sum () over real tokens."""
    learned = torch.is_grad_enabled()
    return _LinearCrossEntropy.apply(states, weight, bias, targets, pad, label_smoothing, learned)


class _LinearCrossEntropy(torch.autograd.Function):
    """Gradients are made on the way forward, for a loss of weight 1; backward scales them."""

    @staticmethod
    def forward(
        ctx: Any,
        states: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        pad: int,
        smoothing: float,
        learned: bool,
    ) -> Tensor:
        kind, dtype = states.device.type, product_type(states)
        in_place = _takes_triton(states)
        to_multiple_of = ALIGNED if in_place else 1
        narrow = _padded(weight, dtype, to_multiple_of)
        narrow_bias = None if bias is None else _padded(bias, dtype, to_multiple_of)
        wanted = learned and any(ctx.needs_input_grad[:3])
        total = torch.zeros((), dtype=wide(dtype), device=states.device)
        gradients = _Gradients(states, weight, bias) if wanted else None
        for begin, end in _pieces(states, len(weight)):
            x = states[begin:end].to(dtype)
            with torch.autocast(kind, enabled=False):
                logits = F.linear(x, narrow, narrow_bias)
                real, right = logits[:, : len(weight)], targets[begin:end]
                how: dict[str, Any] = {"pad": pad, "smoothing": smoothing, "gradient": wanted}
                if in_place:  # logits become their gradient where it is wanted
                    from regard.kernels.gpu.cross_entropy import cross_entropy_rows_

                    losses = cross_entropy_rows_(real, right, **how)
                else:
                    losses, logits = _row_losses(real, right, **how)
                total += losses.sum()
                if gradients is not None:
                    gradients.add(begin, end, logits, x, narrow)
        if gradients is not None:
            ctx.save_for_backward(gradients.states, gradients.weight, gradients.bias)
        return total

    @staticmethod
    def backward(ctx: Any, scale: Tensor) -> tuple[Tensor | None, ...]:
        # The gradients are constants by now.
        if torch.is_grad_enabled() and not torch.compiler.is_compiling():
            raise ConfigError(
                "linear_cross_entropy has no second derivatives; training.losses.cross_entropy has"
            )
        scaled = [None if x is None else x * scale.to(x.dtype) for x in ctx.saved_tensors]
        return (*scaled, None, None, None, None)


class _Gradients:
    """Of the states, the matrix and its bias, summed up piece by piece."""

    def __init__(self, states: Tensor, weight: Tensor, bias: Tensor | None) -> None:
        self.states = torch.empty_like(states)
        self.weight = torch.zeros_like(weight)
        self.bias = None if bias is None else torch.zeros_like(bias)

    def add(self, begin: int, end: int, of_logits: Tensor, x: Tensor, weight: Tensor) -> None:
        """Take in rows begin … end."""
        self.states[begin:end] = of_logits @ weight
        self.weight += (of_logits.mT @ x)[: len(self.weight)]
        if self.bias is not None:
            self.bias += of_logits.sum(dim=0, dtype=self.bias.dtype)[: len(self.bias)]


def _pieces(states: Tensor, n_vocab: int) -> list[tuple[int, int]]:
    """Ranges of rows that make up all of them."""
    n_logits = ON_CPU
    if states.is_cuda:
        memory = torch.cuda.get_device_properties(states.device).total_memory
        n_logits = memory // BYTES_PER_LOGIT_ON_GPU
    size = max(1, n_logits // n_vocab)
    return [(begin, min(begin + size, len(states))) for begin in range(0, len(states), size)]


def _takes_triton(states: Tensor) -> bool:
    return states.is_cuda and HAS_TRITON


def _padded(x: Tensor, dtype: torch.dtype, multiple: int) -> Tensor:
    """x (V, …) as another type, with rows of zeros up to a multiple."""
    n_missing = -len(x) % multiple
    if not n_missing:
        return x.to(dtype)
    padded = x.new_zeros(len(x) + n_missing, *x.shape[1:], dtype=dtype)
    padded[: len(x)] = x
    return padded


def _row_losses(
    logits: Tensor, targets: Tensor, *, pad: int, smoothing: float, gradient: bool
) -> tuple[Tensor, Tensor]:
    """Losses (N,) of logits (N, V), and their gradient where it is wanted."""
    log_probs = logits.log_softmax(dim=-1, dtype=wide(logits.dtype))
    real = (targets != pad).unsqueeze(1)
    at = targets.unsqueeze(1)
    chosen = log_probs.gather(1, at)
    losses = -((1 - smoothing) * chosen + smoothing * log_probs.mean(dim=-1, keepdim=True)) * real
    if gradient:
        slope = log_probs.exp_().sub_(smoothing / logits.shape[1])
        slope.scatter_add_(1, at, torch.full_like(chosen, smoothing - 1))
        logits = slope.mul_(real).to(logits.dtype)
    return losses.squeeze(1), logits
