"""Dropout, as cheap as random numbers can be had on a CPU."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from typing_extensions import override

LEVELS = 2**16
"""Chances are multiples of 1/65,536, and so is the share that is kept: the mean stays exact."""


class Dropout(nn.Module):
    """Zeroes a share ``p`` of the units while training, and scales the others up.

    Torch's own draws a float for every unit on a CPU, which took a seventh of a training step. Here
    one draw of 64 bits decides over four units. A GPU draws in parallel, so torch's own is used
    there.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """(…) -> (…)"""
        if not self.training or self.p == 0:
            return x
        if x.device.type != "cpu" or torch.compiler.is_compiling():
            return F.dropout(x, self.p)
        kept = max(1, round((1 - self.p) * LEVELS))
        if kept == LEVELS:
            return x
        draws = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
        bits = draws.view(torch.int16)[: x.numel()].view(x.shape)
        return (x * (bits < kept - LEVELS // 2)).mul_(LEVELS / kept)

    def extra_repr(self) -> str:
        """For printing a model."""
        return f"p={self.p}"


class TokenDropout(Dropout):
    """Hides whole words, a share ``p`` of them, while training: a text must be understood without
    some of its words (Iyyer et al. 2015).

    A hidden word's vector becomes a fixed one of unit length, the same for all, much as it would
    be read as <unk> (Bowman et al. 2016). It must not be zero: where no positions are added, a zero
    vector stays zero through every layer, and each norm multiplies its gradient by 1/sqrt(eps).
    """

    @override
    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0:
            return x
        hidden = torch.rand(*x.shape[:-1], 1, device=x.device) < self.p
        return torch.where(hidden, _hidden_word(x), x)


class DropPath(Dropout):
    """Stochastic depth (Huang et al. 2016): a share ``p`` of the texts skips what is added here.

    Only while training; what the others add is scaled up.
    """

    @override
    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0:
            return x
        return x * F.dropout(x.new_ones(x.shape[0], 1, 1), self.p)


def _hidden_word(x: Tensor) -> Tensor:
    """(D,) of unit length, as a fresh embedding's rows about are; a mean of 0 survives a norm."""
    width = x.shape[-1]
    signs = 1 - 2 * (torch.arange(width, device=x.device) % 2)
    return (signs * width**-0.5).to(x.dtype)
