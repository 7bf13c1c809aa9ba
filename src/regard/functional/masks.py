"""Masks are boolean and say who MAY be looked at: True = attend, False = hidden.

A mask broadcasts to (B, H, T, S). Combine masks with ``&``. Queries stand at absolute positions:
``first`` is the position of the first one; where it is not given, the last query stands at the
last key, which is right for self-attention with and without cached keys.
"""

from __future__ import annotations

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
