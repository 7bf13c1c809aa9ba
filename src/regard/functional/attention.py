"""Attention as one call: ``regard.attention``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol, overload

import torch
from torch import Tensor

from regard.core.errors import ConfigError, ShapeError
from regard.functional import kernels, masks
from regard.functional.attend import Attended, attend
from regard.functional.normalisers import Normaliser, softmax
from regard.functional.scores import SCORES, Factors, ScoreSizes, check_widths


class BoundScore(Protocol):
    """A score with its parameters in place."""

    def __call__(self, q: Tensor, k: Tensor) -> Tensor:
        """Queries and keys -> scores (…, T, S)."""
        ...

    def factors(self, q: Tensor, k: Tensor) -> Factors | None:
        """The same as an inner product, or None where it is none."""
        ...


@dataclass(frozen=True, slots=True)
class NamedScore:
    """A score that needs no parameters, by its name."""

    name: str

    def __post_init__(self) -> None:
        sizes = ScoreSizes(d_query=1, d_key=1, d_hidden=1, max_len=1)
        if SCORES[self.name].shapes(sizes):
            raise ConfigError(
                f"score {self.name!r} has parameters; make it with "
                f"regard.Score({self.name!r}, d_query=…, d_key=…) and pass that"
            )

    def __call__(self, q: Tensor, k: Tensor) -> Tensor:
        """Queries and keys -> scores."""
        check_widths(self.name, q, k)
        return SCORES[self.name](q, k)

    def factors(self, q: Tensor, k: Tensor) -> Factors | None:
        """The same as an inner product."""
        check_widths(self.name, q, k)
        kind = SCORES[self.name]
        return kind.factors(q, kind.prepare(k)) if kind.factors else None


@overload
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    score: str | BoundScore = ...,
    mask: Tensor | None = ...,
    causal: bool = ...,
    prior: Tensor | None = ...,
    normaliser: Normaliser = ...,
    need_weights: Literal[False] = ...,
) -> Tensor: ...


@overload
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    score: str | BoundScore = ...,
    mask: Tensor | None = ...,
    causal: bool = ...,
    prior: Tensor | None = ...,
    normaliser: Normaliser = ...,
    need_weights: Literal[True],
) -> Attended: ...


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    score: str | BoundScore = "scaled_dot",
    mask: Tensor | None = None,
    causal: bool = False,
    prior: Tensor | None = None,
    normaliser: Normaliser = softmax,
    need_weights: bool = False,
) -> Tensor | Attended:
    """Weigh ``v`` by how well ``q`` matches ``k``.

    q (…, T, Dq), k (…, S, Dk), v (…, S, Dv), with any leading axes such as (B, H); mask boolean,
    True = may attend, broadcastable to (…, T, S). ``causal`` hides the future; the last query
    stands at the last key. A query that may see nothing gets zeros.

    Returns the values (…, T, Dv), or with ``need_weights`` also the weights (…, T, S). Without
    the weights a fused kernel is used where there is one; the result is the same.
    """
    bound = NamedScore(score) if isinstance(score, str) else score
    _check(q, k, v, mask)
    if not need_weights and prior is None and normaliser is softmax and kernels.may_fuse():
        factors = bound.factors(q, k)
        if factors is not None:
            return kernels.fused(factors, v, mask=mask, causal=causal)
    if causal:
        mask = masks.both(mask, masks.causal(q.shape[-2], k.shape[-2], device=q.device))
    attended = attend(q, k, v, score=bound, mask=mask, prior=prior, normaliser=normaliser)
    return attended if need_weights else attended.values


def _check(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> None:
    """Refuse what does not fit together, in words."""
    if k.shape[-2] != v.shape[-2]:
        raise ShapeError(
            f"k has {k.shape[-2]} positions but v has {v.shape[-2]}: "
            f"k {tuple(k.shape)}, v {tuple(v.shape)}"
        )
    if mask is None:
        return
    masks.check(mask)
    wanted = (*q.shape[:-1], k.shape[-2])
    try:
        fits = torch.broadcast_shapes(mask.shape, wanted) == wanted
    except RuntimeError:
        fits = False
    if not fits:
        raise ShapeError(f"mask {tuple(mask.shape)} does not broadcast to (…, T, S) = {wanted}")
