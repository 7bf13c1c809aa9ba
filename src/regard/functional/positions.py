"""Where a token stands, as numbers."""

from __future__ import annotations

import math

import torch
from torch import Tensor

BASE = 10_000.0
"""The longest wavelength is 2π times this."""


def sinusoid(positions: Tensor, d: int, base: float = BASE) -> Tensor:
    """positions (…) -> (…, d): sin and cos in turn, wavelengths from 2π to base·2π.

    PE(pos, 2i) = sin(pos / base^(2i/d)), PE(pos, 2i+1) = cos of the same (Vaswani et al. 2017).
    """
    pairs = torch.arange(0, d, 2, device=positions.device, dtype=torch.float64)  # the 2i
    angles = positions.unsqueeze(-1).double() * torch.exp(pairs * (-math.log(base) / d))
    waves = torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)  # (…, d or d + 1)
    return waves[..., :d].float()


def rotated(x: Tensor, positions: Tensor, base: float = BASE) -> Tensor:
    """x (…, N, d) at positions (N,): the pair (2i, 2i+1) turned by pos / base^(2i/d).

    d is even. The inner product of two rows depends on the difference of their positions alone
    (Su et al. 2021).
    """
    table = rotation if torch.compiler.is_exporting() else _rotation
    cos, sin = table(positions, x.shape[-1], base)
    swapped = x.unflatten(-1, (-1, 2)).flip(-1).flatten(-2)
    return (x * cos + swapped * sin).to(x.dtype)


def rotation(positions: Tensor, d: int, base: float) -> Tensor:
    """positions (N,) -> (2, N, d): cosines twice for a pair, and its sines, the first negative."""
    sin, cos = sinusoid(positions, d, base).unflatten(-1, (-1, 2)).unbind(-1)  # (N, d/2)
    signed = torch.stack((-sin, sin), dim=-1).flatten(-2)
    return torch.stack((cos.repeat_interleave(2, dim=-1), signed))


@torch.library.custom_op("regard::rotation", mutates_args=())
def _rotation(positions: Tensor, d: int, base: float) -> Tensor:
    """``rotation`` as one operation: a compiler computes it once, not in each kernel of a layer."""
    return rotation(positions, d, base)


@_rotation.register_fake
def _(positions: Tensor, d: int, base: float) -> Tensor:
    return positions.new_empty((2, *positions.shape, d), dtype=torch.float32)


def alibi_slopes(n_heads: int) -> Tensor:
    """(H,): from 2^(-8/H) to 2^-8, each the same share of the one before (Press et al. 2022)."""
    return torch.exp2(torch.arange(1, n_heads + 1) * (-8.0 / n_heads))
