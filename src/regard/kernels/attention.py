"""Attention as one call: ``regard.attention``."""

from __future__ import annotations

from typing import Literal, TypedDict, Unpack, overload

import torch
from torch import Tensor

from regard.core.errors import ShapeError
from regard.functional import masks
from regard.functional.attend import NORMALISERS, Attended, Normaliser, ScoreFn, attend, softmax
from regard.functional.masks import Mask, Nearby
from regard.functional.packing import PackedMask
from regard.functional.positions import Alibi, Bias
from regard.functional.scores import BoundScore, Factors, bound_score
from regard.kernels.call import Call, may_fuse
from regard.kernels.table import choose


class Rules(TypedDict, total=False):
    """How to attend: the keywords of ``attention``."""

    score: str | ScoreFn | BoundScore
    mask: Mask
    causal: bool
    near: Nearby | None
    bias: Bias
    prior: Tensor | None
    normaliser: str | Normaliser


@overload
def attention(
    q: Tensor, k: Tensor, v: Tensor, *, need_weights: Literal[False] = ..., **rules: Unpack[Rules]
) -> Tensor: ...


@overload
def attention(
    q: Tensor, k: Tensor, v: Tensor, *, need_weights: Literal[True], **rules: Unpack[Rules]
) -> Attended: ...


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    score: str | ScoreFn | BoundScore = "scaled_dot",
    mask: Mask = None,
    causal: bool = False,
    near: Nearby | None = None,
    bias: Bias = None,
    prior: Tensor | None = None,
    normaliser: str | Normaliser = softmax,
    need_weights: bool = False,
) -> Tensor | Attended:
    """Weigh ``v`` by how well ``q`` matches ``k``.

    q (…, T, Dq), k (…, S, Dk), v (…, S, Dv), with any leading axes such as (B, H). The score is a
    name, a ``regard.Score``, or any function or module of q and k that gives (…, T, S), or what
    broadcasts over the leading axes; the readable kernel asks it. The mask is boolean, True = may
    attend, broadcastable to (…, T, S), or the texts of a packed row. ``causal`` hides
    the future; the last query stands at the last key. ``near`` is a window by positions, such as
    ``Near(half_width)``, that costs what it sees. ``bias`` is added to the scores: a tensor that
    broadcasts to (…, T, S), or ``Alibi(slopes)``; where it is -inf, nothing is seen. ``prior``
    multiplies the weights. The normaliser may be a name, ``softmax`` or ``hard``. A query that may
    see nothing gets zeros.

    Returns the values (…, T, Dv), or with ``need_weights`` also the weights (…, T, S). Without
    the weights a fused kernel is used where there is one; the result is the same.

    >>> x = torch.eye(3)
    >>> near = lambda q, k: -torch.cdist(q, k)  # a score of your own
    >>> attention(x, x, x, score=near, causal=True, need_weights=True).weights[0].tolist()
    [1.0, 0.0, 0.0]
    """
    bound = bound_score(score)
    normaliser = NORMALISERS[normaliser] if isinstance(normaliser, str) else normaliser
    _check(q, k, v, mask, bias)
    plain = prior is None and normaliser is softmax and bound.by_query
    if not need_weights and plain and may_fuse():
        factors, fn = bound.factors(q, k), None
        if factors is None:
            fn, keys = bound.ready(k)
            factors = Factors(q, keys, 1.0)
        call = Call(factors, v, mask, causal, near, bias, fn)
        return choose(call).run(call)
    call = Call(Factors(q, k, 1.0), v, mask, causal, near, bias, bound)
    attended = attend(
        q, k, v, score=bound, mask=call.visible(), bias=call.added(), prior=prior,
        normaliser=normaliser,
    )  # fmt: skip
    return attended if need_weights else attended.values


def _check(q: Tensor, k: Tensor, v: Tensor, mask: Mask, bias: Bias) -> None:
    """Refuse what does not fit together, in words."""
    for name, given in (("q", q), ("k", k), ("v", v)):
        if not isinstance(given, Tensor):
            raise ShapeError(
                f"{name} must be a torch tensor, found {type(given).__name__}; "
                "torch.as_tensor makes one"
            )
        if given.dim() < 2:
            raise ShapeError(f"{name} must be (…, positions, width), found {tuple(given.shape)}")
    if k.shape[-2] != v.shape[-2]:
        raise ShapeError(
            f"k has {k.shape[-2]} positions but v has {v.shape[-2]}: "
            f"k {tuple(k.shape)}, v {tuple(v.shape)}"
        )
    wanted = (*_leading(q, k, v), q.shape[-2], k.shape[-2])
    if not (mask is None or isinstance(mask, Tensor | PackedMask)):
        raise ShapeError(f"a mask must be a boolean torch tensor, found {type(mask).__name__}")
    if isinstance(mask, Tensor):
        masks.check(mask)
        _check_shape("mask", mask.shape, wanted)
    if isinstance(bias, Alibi):
        if wanted[-3:-2] != bias.slopes.shape:
            raise ShapeError(
                f"ALiBi has {len(bias.slopes)} slopes, one a head, but scores are "
                f"(…, H, T, S) = {wanted}"
            )
    elif bias is not None:
        _check_shape("bias", bias.shape, wanted)


def _leading(q: Tensor, k: Tensor, v: Tensor) -> torch.Size:
    """The axes before positions and width, which must broadcast."""
    try:
        return torch.broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2])
    except RuntimeError:
        shapes = ", ".join(f"{n} {tuple(x.shape)}" for n, x in (("q", q), ("k", k), ("v", v)))
        raise ShapeError(f"the leading axes do not broadcast: {shapes}") from None


def _check_shape(name: str, shape: torch.Size, wanted: tuple[int, ...]) -> None:
    try:
        fits = torch.broadcast_shapes(shape, wanted) == wanted
    except RuntimeError:
        fits = False
    if not fits:
        raise ShapeError(f"{name} {tuple(shape)} does not broadcast to (…, T, S) = {wanted}")
