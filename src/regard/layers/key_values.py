"""Keys and values of one attention: projected once, extended step by step."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from regard.layers.cache import Cache


@dataclass(frozen=True, slots=True)
class KeyValues:
    """k (B, H, S, Dk) and v (B, H, S, Dv). What one sees never changes."""

    k: Tensor
    v: Tensor
    cache: Cache | None = field(default=None, repr=False, compare=False)
    """The room in which they lie, if there may be more after them."""

    def extended(self, other: KeyValues) -> KeyValues:
        """These positions, then the other's.

        Those are written where there is room after these, unless somebody else did so before; then
        all are copied to room of their own. With gradients nothing is ever written over.
        """
        keys, values = (self.k, other.k), (self.v, other.v)
        if torch.is_grad_enabled() and any(x.requires_grad for x in (*keys, *values)):
            return KeyValues(torch.cat(keys, dim=-2), torch.cat(values, dim=-2))
        n, cache = self.k.shape[-2], self.cache
        if cache is None or not cache.takes(n, other.k):
            n_rows = self.k.shape[0]
            cache = Cache.like(other.k, other.v, n_rows, n + other.k.shape[-2])
            cache.write(self.k, self.v)
        return KeyValues(*cache.write(other.k, other.v), cache)

    def shared_by(self, n_heads: int) -> KeyValues:
        """For so many heads: each of these is shared by n_heads / H that lie side by side."""
        n = n_heads // self.k.shape[1]
        if n == 1:
            return self
        return KeyValues(self.k.repeat_interleave(n, dim=1), self.v.repeat_interleave(n, dim=1))

    def select(self, rows: Tensor) -> KeyValues:
        """Rows of the batch by index, in that order; these very ones where nothing changes."""
        if _is_identity(rows, self.k.shape[0]):
            return self
        return KeyValues(self.k.index_select(0, rows), self.v.index_select(0, rows))


def _is_identity(rows: Tensor, n_rows: int) -> bool:
    """Whether all rows stay; on a GPU nobody waits to find out."""
    if rows.device.type != "cpu" or len(rows) != n_rows:
        return False
    return torch.equal(rows, torch.arange(n_rows))
