"""Dropout, as cheap as random numbers can be had on a CPU."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

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


class TokenDropout(nn.Module):
    """Zeroes whole vectors, a share ``p`` of them, while training: a text must be understood
    without some of its words (Iyyer et al. 2015). The others are scaled up.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """(…, D) -> (…, D)"""
        if not self.training or self.p == 0:
            return x
        return x * F.dropout(x.new_ones(*x.shape[:-1], 1), self.p)

    def extra_repr(self) -> str:
        """For printing a model."""
        return f"p={self.p}"
