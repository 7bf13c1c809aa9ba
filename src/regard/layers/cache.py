"""Room for positions that come one after another, so that those before need not be copied."""

from __future__ import annotations

import torch
from torch import Tensor

SMALLEST = 16
"""Positions for which there is room at first."""


class Cache:
    """Two tensors with room for more positions, shared by values that see more or less of it.

    k (B, H, L, Dk), v (B, H, L, Dv); the first ``used`` positions are taken. Whoever sees exactly
    those may write further ones; whoever sees fewer would write over what another one sees.
    """

    __slots__ = ("k", "used", "v")

    def __init__(self, k: Tensor, v: Tensor, used: int) -> None:
        self.k, self.v, self.used = k, v, used

    @classmethod
    def like(cls, k: Tensor, v: Tensor, n_rows: int, n_positions: int) -> Cache:
        """New room for at least so many positions, as many again, and nothing in it."""
        room = max(SMALLEST, 2 * n_positions)
        empty_k, empty_v = (x.new_empty(n_rows, x.shape[1], room, x.shape[3]) for x in (k, v))
        return cls(empty_k, empty_v, used=0)

    def takes(self, seen: int, k: Tensor) -> bool:
        """Whether positions k can be written after the ``seen`` ones: in free room, of its kind."""
        stays = torch.is_inference_mode_enabled() or not self.k.is_inference()
        fits = seen + k.shape[-2] <= self.k.shape[-2]
        return fits and stays and seen == self.used and k.dtype == self.k.dtype

    def write(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Enter positions after the used ones -> all of them, seen through the cache."""
        begin, end = self.used, self.used + k.shape[-2]
        self.k[:, :, begin:end] = k
        self.v[:, :, begin:end] = v
        self.used = end
        return self.k[:, :, :end], self.v[:, :, :end]
