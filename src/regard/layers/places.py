"""Positions that are told inside attention, from query to key, rather than at the embedding.

They say how far apart two tokens stand, so they belong to self-attention: the first key stands at
position 0, and the queries go on from ``first``.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from regard.core.errors import ShapeError
from regard.core.registry import Registry
from regard.functional.biases import Alibi, Bias
from regard.functional.positions import BASE, alibi_slopes, rotated


class Told(NamedTuple):
    """Queries and keys that know their places, or a bias that does."""

    q: Tensor
    """(B, H, T, Dq)"""
    k: Tensor
    """(B, H, S, Dk)"""
    bias: Bias = None


class Places(nn.Module):
    """The kind ``none``: nothing is said here. The others derive from it."""

    def __init__(self, n_heads: int, base: float = BASE) -> None:
        super().__init__()

    def forward(self, q: Tensor, k: Tensor, first: int) -> Told:
        """q (B, H, T, Dq) from position ``first`` on, k (B, H, S, Dk) from position 0 on."""
        return Told(q, k)


class AlibiPlaces(Places):
    """``alibi``: the farther away, the lower the score (Press et al. 2022). Nothing to learn."""

    slopes: Tensor

    def __init__(self, n_heads: int, base: float = BASE) -> None:
        super().__init__(n_heads)
        self.register_buffer("slopes", alibi_slopes(n_heads), persistent=False)

    def forward(self, q: Tensor, k: Tensor, first: int) -> Told:
        """As ``Places.forward``."""
        return Told(q, k, Alibi(self.slopes, first))


class RotaryPlaces(Places):
    """``rotary``: pairs of numbers are turned by angles that grow with the place (Su et al. 2021).

    An inner product of two that were turned depends on the difference of their places alone. The
    slowest pair turns once in about 2π·``base`` places.
    """

    def __init__(self, n_heads: int, base: float = BASE) -> None:
        super().__init__(n_heads)
        self.base = base

    def forward(self, q: Tensor, k: Tensor, first: int) -> Told:
        """As ``Places.forward``."""
        if q.shape[-1] % 2 or k.shape[-1] % 2:
            raise ShapeError(
                f"rotary positions turn pairs of numbers, but heads are {q.shape[-1]} wide; "
                "choose d_model and n_heads so that they are even"
            )
        queries, keys = (
            torch.arange(begin, begin + x.shape[-2], device=x.device)
            for begin, x in ((first, q), (0, k))
        )
        return Told(rotated(q, queries, self.base), rotated(k, keys, self.base))


PLACES: Registry[type[Places]] = Registry("positions of attention")
PLACES.add("none")(Places)
PLACES.add("alibi")(AlibiPlaces)
PLACES.add("rotary")(RotaryPlaces)
