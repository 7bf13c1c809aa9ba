"""The whole of attention, readable: scores, what may be seen, weights, weighted values.

This is the truth that every faster kernel is tested against. Normalisers turn scores into weights:
rows that sum to 1, or to 0 where all is hidden.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.core.registry import Registry

ScoreFn = Callable[[Tensor, Tensor], Tensor]
"""q (…, T, Dq), k (…, S, Dk) -> scores (…, T, S); -inf where a key cannot be seen at all."""


Normaliser = Callable[[Tensor, Tensor | None], Tensor]
"""(scores (…, T, S), visible (…, T, S) or None) -> weights (…, T, S)"""

NORMALISERS: Registry[Normaliser] = Registry("normaliser")


def drawn(normaliser: Normaliser) -> Normaliser:
    """Mark a normaliser that puts all weight on one key, and so has no gradient to the scores.

    Layers draw that key while they learn (``regard.layers.draw``), where attention looks across.
    """
    normaliser.is_drawn = True  # type: ignore[attr-defined]
    return normaliser


def is_drawn(name: str) -> bool:
    """Whether the normaliser of that name puts all weight on one key, which layers draw."""
    return name in NORMALISERS and getattr(NORMALISERS[name], "is_drawn", False)


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
@drawn
def hard(scores: Tensor, visible: Tensor | None) -> Tensor:
    """All weight on the best visible key, the first of several: what is looked at when decoding."""
    if scores.shape[-1] == 0:
        return torch.zeros_like(scores)
    lowest = torch.finfo(scores.dtype).min
    seen = scores if visible is None else scores.masked_fill(~visible, lowest)
    best = seen.max(dim=-1, keepdim=True)
    weights = F.one_hot(best.indices.squeeze(-1), scores.shape[-1]).to(scores.dtype)
    return weights.masked_fill(best.values <= lowest, 0.0)  # a row that sees nothing


class Attended(NamedTuple):
    """What came of attending."""

    values: Tensor
    """(…, T, Dv): what each query brought home."""
    weights: Tensor
    """(…, T, S): where it looked; each row sums to 1, or to 0 if it saw nothing."""


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    score: ScoreFn,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    prior: Tensor | None = None,
    normaliser: Normaliser = softmax,
) -> Attended:
    """Weigh ``v`` by how well ``q`` matches ``k``.

    q (…, T, Dq), k (…, S, Dk), v (…, S, Dv); mask boolean, bias and prior real, all broadcastable
    to (…, T, S). The bias is added to the scores; the prior multiplies the weights after
    normalising, as Luong's Gaussian does.
    """
    scores = score(q, k)
    if bias is not None:
        scores = scores + bias
    return weigh(scores, v, mask=mask, prior=prior, normaliser=normaliser)


def weigh(
    scores: Tensor,
    v: Tensor,
    *,
    mask: Tensor | None = None,
    prior: Tensor | None = None,
    normaliser: Normaliser = softmax,
) -> Attended:
    """The second half of ``attend``: scores (…, T, S) are there already."""
    weights = normaliser(scores, mask)
    if prior is not None:
        weights = weights * prior
    return Attended(weights @ v, weights)


def wide(dtype: torch.dtype) -> torch.dtype:
    """At least float32.

    >>> wide(torch.bfloat16), wide(torch.float64)
    (torch.float32, torch.float64)
    """
    return torch.promote_types(dtype, torch.float32)
