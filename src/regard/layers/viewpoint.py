"""A named place in every attention where others may look without touching.

Fused kernels never build the weights. So a viewpoint hands over what went *in*: whoever watches
computes the weights again from the very q and k of that run. Nobody watching costs nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

from torch import Tensor, nn

from regard.functional.attend import Attended
from regard.functional.attention import BoundScore, attention
from regard.functional.normalisers import Normaliser


class Rules(TypedDict):
    """How to attend, as keywords of ``regard.attention``."""

    score: BoundScore
    mask: Tensor | None
    causal: bool
    prior: Tensor | None
    normaliser: Normaliser


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """All that one call of attention was given."""

    q: Tensor
    """(B, H, T, Dq)"""
    k: Tensor
    """(B, H, S, Dk)"""
    v: Tensor
    """(B, H, S, Dv)"""
    score: BoundScore
    mask: Tensor | None
    causal: bool
    prior: Tensor | None
    normaliser: Normaliser

    def values(self) -> Tensor:
        """(B, H, T, Dv), by the fastest kernel that can do it."""
        return attention(self.q, self.k, self.v, **self._rules())

    def attended(self) -> Attended:
        """Values and weights, by the readable kernel."""
        return attention(self.q, self.k, self.v, **self._rules(), need_weights=True)

    def _rules(self) -> Rules:
        return {
            "score": self.score,
            "mask": self.mask,
            "causal": self.causal,
            "prior": self.prior,
            "normaliser": self.normaliser,
        }


class Viewpoint(nn.Module):
    """An identity; watch it with ``register_forward_hook``."""

    @property
    def watched(self) -> bool:
        """Whether anybody looks."""
        return bool(self._forward_hooks)

    def forward(self, seen: Seen) -> Seen:
        """Hand over what is seen."""
        return seen
