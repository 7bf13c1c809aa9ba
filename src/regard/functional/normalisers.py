"""Normalisers turn scores into weights: rows that sum to 1, or to 0 where all is hidden."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.core.registry import Registry

Normaliser = Callable[[Tensor, Tensor | None], Tensor]
"""(scores (…, T, S), visible (…, T, S) or None) -> weights (…, T, S)"""

NORMALISERS: Registry[Normaliser] = Registry("normaliser")


@NORMALISERS.add("softmax")
def softmax(scores: Tensor, visible: Tensor | None) -> Tensor:
    """exp, over the sum of the visible ones.

    Hidden scores become the smallest finite number rather than -inf: a row that sees nothing is
    then uniform for a moment, never NaN, and the second fill turns it into zeros. Scores that are
    -inf by themselves stay below those, so a row of nothing else ends as zeros too.
    """
    if visible is None:
        return scores.softmax(dim=-1)
    lowest = torch.finfo(scores.dtype).min
    return scores.masked_fill(~visible, lowest).softmax(dim=-1).masked_fill(~visible, 0.0)


@NORMALISERS.add("hard")
def hard(scores: Tensor, visible: Tensor | None) -> Tensor:
    """All weight on the best visible key, the first of several: what is looked at when decoding.

    It has no gradient to the scores. How it is learned: ``regard.layers.draw``.
    """
    if scores.shape[-1] == 0:
        return torch.zeros_like(scores)
    lowest = torch.finfo(scores.dtype).min
    seen = scores if visible is None else scores.masked_fill(~visible, lowest)
    best = seen.max(dim=-1, keepdim=True)
    weights = F.one_hot(best.indices.squeeze(-1), scores.shape[-1]).to(scores.dtype)
    return weights.masked_fill(best.values <= lowest, 0.0)  # a row that sees nothing
