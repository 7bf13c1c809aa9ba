"""A named place in every attention where others may look without touching.

Fused kernels never build the weights. So a viewpoint hands over what went *in*: whoever watches
computes the weights again from the very q and k of that run. Nobody watching costs nothing.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from regard.functional.attend import Attended, Normaliser
from regard.functional.masks import Mask, Nearby
from regard.functional.positions import Bias
from regard.functional.scores import BoundScore
from regard.kernels.attention import attention
from regard.layers.draw import Draw, Remembered


@dataclass(frozen=True, slots=True)
class Seen:
    """All that one call of attention was given; ``mask`` to ``near`` are a window's."""

    q: Tensor
    """(B, H, T, Dq)"""
    k: Tensor
    """(B, H, S, Dk)"""
    v: Tensor
    """(B, H, S, Dv)"""
    score: BoundScore
    normaliser: Normaliser
    bias: Bias
    """Added to the scores."""
    mask: Mask
    causal: bool
    prior: Tensor | None = None
    """Multiplies the weights."""
    near: Nearby | None = None
    """A window by positions, besides what the mask hides."""

    def values(self) -> Tensor:
        """(B, H, T, Dv), by the fastest kernel that can do it."""
        return attention(**self._given())

    def attended(self) -> Attended:
        """Values and weights, by the readable kernel."""
        return attention(**self._given(), need_weights=True)

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name} {tuple(getattr(self, name).shape)}" for name in "qkv")
        return f"<Seen by one attention: {shapes}{', causal' if self.causal else ''}>"

    def _given(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


class Viewpoint(nn.Module):
    """What is seen, after edits: watch it with ``register_forward_hook``.

    An edit is a hook of its ``change`` that returns something else; it comes before who watches.
    Where keys are ``slots``, each stands for several positions (see the window ``compressed``).
    """

    def __init__(self, *, slots: bool = False) -> None:
        super().__init__()
        self.slots = slots
        self.change = nn.Identity()

    @property
    def watched(self) -> bool:
        """Whether anybody looks, or changes what there is to see."""
        return bool(self._forward_hooks) or self.edited

    @property
    def edited(self) -> bool:
        """Whether anybody changes what there is to see."""
        return bool(self.change._forward_hooks)

    def forward(self, seen: Seen) -> Seen:
        """Hand over what is seen; what chance decided, in a draw or a score, stays decided."""
        drops = self.training and not seen.score.by_query  # a score of somebody's may have dropout
        if drops or isinstance(seen.normaliser, Draw):
            seen = dataclasses.replace(seen, normaliser=Remembered(seen.normaliser))
        return self.change(seen)
