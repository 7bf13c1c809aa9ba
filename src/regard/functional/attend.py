"""The whole of attention, readable: scores, what may be seen, weights, weighted values.

This is the truth that every faster kernel is tested against.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from regard.functional.normalisers import Normaliser, softmax

ScoreFn = Callable[[Tensor, Tensor], Tensor]
"""q (…, T, Dq), k (…, S, Dk) -> scores (…, T, S); -inf where a key cannot be seen at all."""


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
