"""Where a token stands, as numbers."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def sinusoid(positions: Tensor, d: int) -> Tensor:
    """positions (…) -> (…, d): sin and cos in turn, wavelengths from 2π to 10000·2π.

    PE(pos, 2i) = sin(pos / 10000^(2i/d)), PE(pos, 2i+1) = cos of the same (Vaswani et al. 2017).
    """
    pairs = torch.arange(0, d, 2, device=positions.device, dtype=torch.float64)  # the 2i
    angles = positions.unsqueeze(-1).double() * torch.exp(pairs * (-math.log(10_000.0) / d))
    waves = torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)  # (…, d or d + 1)
    return waves[..., :d].float()
