"""Masks are boolean and say who MAY be looked at: True = attend, False = hidden.

A mask broadcasts to (B, H, T, S). Combine masks with ``&``. Queries stand at absolute positions:
``first`` is the position of the first one; where it is not given, the last query stands at the
last key, which is right for self-attention with and without cached keys.

Windows say which keys are near enough to a query to be seen. ``Near`` and ``Block`` are masks that
are not written out: two integers, from which a kernel knows what it need not touch. Luong's
predicted window is computed from the query itself (``local_p``).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from regard.core.errors import ShapeError
from regard.functional.packing import PackedMask

Mask = Tensor | PackedMask | None
"""Written out, or the texts of a packed row; None hides nothing."""


def causal(
    n_queries: int, n_keys: int | None = None, *, device: torch.device | None = None
) -> Tensor:
    """(T, S): no looking ahead.

    >>> causal(2, 4).int().tolist()
    [[1, 1, 1, 0], [1, 1, 1, 1]]
    """
    n_keys = n_queries if n_keys is None else n_keys
    t, s = positions(n_queries, n_keys, None, device)
    return s <= t


def padding(ids: Tensor, *, pad: int) -> Tensor:
    """ids (B, S) -> (B, 1, 1, S): every token but padding may be looked at."""
    return (ids != pad)[:, None, None, :]


def dense(mask: Mask) -> Tensor | None:
    """The mask, written out."""
    return mask.dense() if isinstance(mask, PackedMask) else mask


def both(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    """What two masks allow together; None hides nothing."""
    if a is None or b is None:
        return b if a is None else a
    return a & b


def check(mask: Tensor) -> None:
    """Refuse a mask that is not boolean: 0/1 and 0/-inf masks mean other things elsewhere."""
    if mask.dtype != torch.bool:
        raise ShapeError(f"a mask must be boolean (True = may attend), got {mask.dtype}")


def positions(
    n_queries: int, n_keys: int, first: int | None = None, device: torch.device | None = None
) -> tuple[Tensor, Tensor]:
    """Where queries (T, 1) and keys (S,) stand; see above for ``first``."""
    first = n_keys - n_queries if first is None else first
    t = torch.arange(first, first + n_queries, device=device).unsqueeze(1)
    return t, torch.arange(n_keys, device=device)


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
        return self.sees(*positions(n_queries, n_keys, self.first, device))


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
        return self.sees(*positions(n_queries, n_keys, self.first, device))


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
