"""Where a token stands, as numbers, and biases: what is added to the scores.

Any real tensor that broadcasts to (…, T, S) can be a bias. ``Alibi`` is one that is not written
out: a number a head, from which a kernel computes the rest where it needs it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from regard.functional import masks

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


def plane_codes(points: Tensor, d: int) -> Tensor:
    """Sine codes of points (…, 2), x and y from 0 to 1 -> (…, d): one half says y, the other x.

    The fastest wave turns once from one side of a picture to the other.
    """
    x, y = (math.tau * points).unbind(-1)
    return torch.cat((sinusoid(y, d - d // 2), sinusoid(x, d // 2)), dim=-1)


def grid_codes(
    rows: int, columns: int, d: int, *, at: float = 0.5, device: torch.device | None = None
) -> Tensor:
    """Sine codes of the cells of a picture, row by row (rows · columns, d)."""
    down, across = (cell_places(n, at, device) for n in (rows, columns))
    points = torch.stack((across.repeat(rows), down.repeat_interleave(columns)), dim=-1)
    return plane_codes(points, d)


def cell_places(n: int, at: float, device: torch.device | None = None) -> Tensor:
    """(n,): where n cells lie that stand side by side from 0 to 1; ``at`` 0.5, their middles.

    >>> cell_places(2, 0.5).tolist()
    [0.25, 0.75]
    """
    return (torch.arange(n, device=device) + at) / n


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


class Alibi(NamedTuple):
    """−m·|i − j|: what is far away counts less, in each head by its own slope (Press et al. 2022).

    Where the future is hidden this is the paper's −m·(i − j); without it, what lies ahead counts
    as what lies behind.
    """

    slopes: Tensor
    """(H,): m of each head."""
    first: int | None = None
    """Position of the first query; where it is None, the last query stands at the last key."""

    def between(self, t: Tensor, s: Tensor) -> Tensor:
        """Positions (…) that broadcast -> (H, …)."""
        distance = (t - s).abs()
        return -self.slopes.view(-1, *(1 for _ in distance.shape)) * distance

    def dense(self, n_queries: int, n_keys: int) -> Tensor:
        """(H, T, S), written out."""
        t, s = masks.positions(n_queries, n_keys, self.first, self.slopes.device)
        return self.between(t, s)


Bias = Tensor | Alibi | None
"""Written out, or by slopes; None adds nothing."""


def dense_bias(bias: Bias, n_queries: int, n_keys: int) -> Tensor | None:
    """The bias, written out."""
    return bias.dense(n_queries, n_keys) if isinstance(bias, Alibi) else bias


def scaled_bias(bias: Bias, factor: float) -> Bias:
    """The bias times a factor."""
    if isinstance(bias, Alibi):
        return bias._replace(slopes=bias.slopes * factor)
    return None if bias is None else bias * factor
