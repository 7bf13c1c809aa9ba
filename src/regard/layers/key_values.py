"""Keys and values of one attention: projected once, extended step by step."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class KeyValues:
    """k (B, H, S, Dk) and v (B, H, S, Dv). Never changed in place."""

    k: Tensor
    v: Tensor

    def extended(self, other: KeyValues) -> KeyValues:
        """These positions, then the other's."""
        return KeyValues(torch.cat((self.k, other.k), dim=-2), torch.cat((self.v, other.v), dim=-2))

    def select(self, rows: Tensor) -> KeyValues:
        """Rows of the batch by index, in that order."""
        return KeyValues(self.k.index_select(0, rows), self.v.index_select(0, rows))
