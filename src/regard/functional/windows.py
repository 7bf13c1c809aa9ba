"""Windows: which keys are near enough to a query to be seen.

``Near`` and ``Block`` are masks that are not written out: two integers, from which a kernel knows
what it need not touch. Luong's predicted window is computed from the query itself (``local_p``).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from regard.functional import masks


class Near(NamedTuple):
    """The 2D+1 keys around each query's own position (Luong's monotonic window, ``local_m``)."""

    half_width: int
    """D"""
    first: int | None = None
    """Position of the first query; where it is None, the last query stands at the last key."""

    def sees(self, t: Tensor, s: Tensor) -> Tensor:
        """Whether a query at position t may see the key at position s; the two broadcast."""
        return (t - s).abs() <= self.half_width

    def dense(self, n_queries: int, n_keys: int, *, device: torch.device | None = None) -> Tensor:
        """(T, S), written out.

        >>> Near(1, first=0).dense(3, 4).int().tolist()
        [[1, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 1]]
        """
        return self.sees(*masks.positions(n_queries, n_keys, self.first, device))


class Block(NamedTuple):
    """Positions are cut into blocks of equal length; a query sees its own (Liu et al. 2018)."""

    length: int
    """L: positions of a block."""
    first: int | None = None
    """As in ``Near``."""

    def sees(self, t: Tensor, s: Tensor) -> Tensor:
        """Whether a query at position t may see the key at position s; the two broadcast."""
        return t // self.length == s // self.length

    def dense(self, n_queries: int, n_keys: int, *, device: torch.device | None = None) -> Tensor:
        """(T, S), written out.

        >>> Block(2, first=1).dense(3, 4).int().tolist()
        [[1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 1, 1]]
        """
        return self.sees(*masks.positions(n_queries, n_keys, self.first, device))


Nearby = Near | Block
"""A window that depends on positions alone."""


def predicted_centre(q: Tensor, lengths: Tensor, *, weight: Tensor, v: Tensor) -> Tensor:
    """p = S · sigmoid(vᵀ tanh(W q)), a real-valued position in (0, S).

    q (…, T, Dq), lengths broadcastable to (…, T), weight (…, Dq, A), v (…, A) -> (…, T).
    """
    return lengths * torch.sigmoid(((q @ weight).tanh() @ v[..., None]).squeeze(-1))


def around(centre: Tensor, n_keys: int, *, half_width: int) -> tuple[Tensor, Tensor]:
    """The keys within D of the centre, and the Gaussian of σ = D/2 that multiplies their weights.

    centre (…, T) -> mask (…, T, S) and Gaussian (…, T, S). The Gaussian is what carries gradients
    back to the centre; it is applied after the softmax, so rows sum to less than 1.
    """
    distance = torch.arange(n_keys, device=centre.device) - centre.unsqueeze(-1)
    sigma = half_width / 2
    return distance.abs() <= half_width, torch.exp(-(distance**2) / (2 * sigma**2))
