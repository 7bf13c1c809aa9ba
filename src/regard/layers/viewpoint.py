"""A named place in every attention where others may look without touching.

Fused kernels never build the weights. So a viewpoint hands over what went *in*: whoever watches
computes the weights again from the very q and k of that run. Nobody watching costs nothing.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from regard.functional.attend import Attended
from regard.functional.masks import Mask
from regard.functional.normalisers import Normaliser
from regard.functional.positions import Bias
from regard.functional.scores import BoundScore
from regard.functional.windows import Nearby
from regard.kernels.attention import attention
from regard.layers.draw import Draw, Remembered


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
    mask: Mask
    causal: bool
    near: Nearby | None = None
    """A window by positions, besides what the mask hides."""
    bias: Bias = None
    """Added to the scores."""
    prior: Tensor | None
    normaliser: Normaliser

    def values(self) -> Tensor:
        """(B, H, T, Dv), by the fastest kernel that can do it."""
        return attention(self.q, self.k, self.v, **self._rules())

    def attended(self) -> Attended:
        """Values and weights, by the readable kernel."""
        return attention(self.q, self.k, self.v, **self._rules(), need_weights=True)

    def _rules(self) -> dict[str, Any]:
        """How to attend, as keywords of ``regard.attention``."""
        names = ("score", "mask", "causal", "near", "bias", "prior", "normaliser")
        return {name: getattr(self, name) for name in names}


class Change(nn.Module):
    """An identity; an edit is a ``register_forward_hook`` that returns something else."""

    def forward(self, seen: Seen) -> Seen:
        """What is attended to instead."""
        return seen


class Viewpoint(nn.Module):
    """What is seen, after edits; watch it with ``register_forward_hook``, edit its ``change``.

    So whoever watches sees what edits made of it, whoever came first.
    """

    def __init__(self) -> None:
        super().__init__()
        self.change = Change()

    @property
    def watched(self) -> bool:
        """Whether anybody looks, or changes what there is to see."""
        return bool(self._forward_hooks) or self.edited

    @property
    def edited(self) -> bool:
        """Whether anybody changes what there is to see."""
        return bool(self.change._forward_hooks)

    def forward(self, seen: Seen) -> Seen:
        """Hand over what is seen; a key that is drawn stays the one that was drawn."""
        if isinstance(seen.normaliser, Draw):
            seen = dataclasses.replace(seen, normaliser=Remembered(seen.normaliser))
        return self.change(seen)
