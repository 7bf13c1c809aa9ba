"""Masks are boolean and say who MAY be looked at: True = attend, False = hidden.

A mask broadcasts to (B, H, T, S). Combine masks with ``&``. Queries stand at absolute positions:
``first`` is the position of the first one; where it is not given, the last query stands at the
last key, which is right for self-attention with and without cached keys. Where the texts of a batch
do not begin together, it holds a position a text.

Windows say which keys are near enough to a query to be seen. ``Near``, ``Block`` and ``Slots`` are
masks that are not written out: two integers, from which a kernel knows what it need not touch.
Luong's predicted window is computed from the query itself (``local_p``).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.core.errors import ShapeError
from regard.functional.packing import PackedMask

Mask = Tensor | PackedMask | None
"""Written out, or the texts of a packed row; None hides nothing."""


def causal(
    n_queries: int,
    n_keys: int | None = None,
    *,
    first: int | Tensor | None = None,
    device: torch.device | None = None,
) -> Tensor:
    """(T, S): no looking ahead; (B, 1, T, S) where each text has a ``first`` of its own.

    >>> causal(2, 4).int().tolist()
    [[1, 1, 1, 0], [1, 1, 1, 1]]
    """
    n_keys = n_queries if n_keys is None else n_keys
    t, s = positions(n_queries, n_keys, first, device)
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
    n_queries: int,
    n_keys: int,
    first: int | Tensor | None = None,
    device: torch.device | None = None,
) -> tuple[Tensor, Tensor]:
    """Where queries (T, 1) and keys (S,) stand; see above for ``first``.

    Of texts with a ``first`` (B,) of their own: queries (B, 1, T, 1).
    """
    s = torch.arange(n_keys, device=device)
    if isinstance(first, Tensor):
        return (first[:, None, None, None] + torch.arange(n_queries, device=device)[:, None]), s
    first = n_keys - n_queries if first is None else first
    return torch.arange(first, first + n_queries, device=device).unsqueeze(1), s


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


class Slots(NamedTuple):
    """Keys that stand for several positions each: slots of a compressed text (Liu et al. 2018).

    Key 0 stands for none and is always seen. Key s ≥ 1 covers the positions stride·(s - 1) to
    stride·s - 1, and a query sees it from the last of them on.
    """

    stride: int
    """Positions of a slot."""
    first: int | None = 0
    """Position of the first query."""

    def sees(self, t: Tensor, s: Tensor) -> Tensor:
        """Whether a query at position t may see the key of number s; the two broadcast."""
        return self.stride * s <= t + 1

    def dense(self, n_queries: int, n_keys: int, *, device: torch.device | None = None) -> Tensor:
        """(T, S), written out.

        >>> Slots(2).dense(4, 3).int().tolist()
        [[1, 0, 0], [1, 1, 0], [1, 1, 0], [1, 1, 1]]
        """
        return self.sees(*positions(n_queries, n_keys, self.first, device))


Nearby = Near | Block | Slots
"""A window that depends on positions alone."""


def slots_seen(mask: Tensor, stride: int, n_slots: int) -> Tensor:
    """What a mask of positions (…, S) says of slots: (…, 1 + n_slots), as ``Slots`` counts them.

    A slot is seen where all its positions are.

    >>> slots_seen(torch.tensor([True, True, True, False, True]), 2, 2).int().tolist()
    [1, 1, 0]
    """
    n = stride * n_slots
    each = mask[..., :n].expand(*mask.shape[:-1], n).unflatten(-1, (n_slots, stride)).all(dim=-1)
    return F.pad(each, (1, 0), value=True)


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
