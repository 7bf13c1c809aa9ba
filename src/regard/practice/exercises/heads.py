"""Multi-head attention: several looks at once, each in a space of its own.

The width D is cut into H heads of Dh = D / H numbers. Each head attends for itself, with its own
part of the projections; what the heads bring home is put side by side again and mixed by W_o.

    split_heads(x, n_heads)                       (B, T, D) -> (B, H, T, Dh)
    join_heads(x)                                 (B, H, T, Dh) -> (B, T, D)
    multi_head(x, memory, w_q, w_k, w_v, w_o, n_heads, mask)

Head h of a vector is its numbers h·Dh … (h+1)·Dh - 1. Queries come from x, keys and values from
memory; a projection is x @ w. The mask (B, 1, 1, S) or (1, 1, T, S) says what may be looked at.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from regard.practice.sheet import Arguments, Sheet

sheet = Sheet()


@sheet.blank(
    "First cut the last axis in two, (H, Dh), and only then move the axis of the heads.",
    "x.view(B, T, n_heads, D // n_heads).transpose(1, 2)",
)
def split_heads(x: Tensor, n_heads: int) -> Tensor:
    """x (B, T, D) -> (B, H, T, Dh)."""
    B, T, D = x.shape
    return x.view(B, T, n_heads, D // n_heads).transpose(1, 2)


@sheet.blank(
    "Go the way back: move the axis of the heads behind the positions, then join the last two.",
    "x.transpose(1, 2).flatten(2)",
)
def join_heads(x: Tensor) -> Tensor:
    """x (B, H, T, Dh) -> (B, T, H·Dh), the inverse of split_heads."""
    return x.transpose(1, 2).flatten(2)


@sheet.blank(
    "Project all heads at once (x @ w_q), then split: q, k, v are (B, H, ·, Dh).",
    "Scores are q @ k.mT / √Dh, of shape (B, H, T, S); hidden ones become -inf before the softmax.",
    "Join the heads, and multiply by w_o.",
)
def multi_head(
    x: Tensor,
    memory: Tensor,
    w_q: Tensor,
    w_k: Tensor,
    w_v: Tensor,
    w_o: Tensor,
    n_heads: int,
    mask: Tensor,
) -> Tensor:
    """x (B, T, D), memory (B, S, D), each w (D, D), mask (True = may look) -> (B, T, D)."""
    q = split_heads(x @ w_q, n_heads)
    k, v = (split_heads(memory @ w, n_heads) for w in (w_k, w_v))
    scores = q @ k.mT / math.sqrt(q.shape[-1])  # (B, H, T, S)
    weights = scores.masked_fill(~mask, float("-inf")).softmax(dim=-1)
    return join_heads(weights @ v) @ w_o


# ------------------------------------------------------------------ examples


@sheet.cases(split_heads)
def _wholes() -> Iterator[Arguments]:
    yield {"x": torch.arange(4.0).view(1, 1, 4), "n_heads": 2}
    yield {"x": torch.arange(8.0).view(1, 2, 4), "n_heads": 2}
    yield {"x": torch.arange(72.0).view(2, 3, 12), "n_heads": 4}


@sheet.cases(join_heads)
def _parts() -> Iterator[Arguments]:
    yield {"x": torch.arange(8.0).view(1, 2, 2, 2)}
    yield {"x": torch.arange(72.0).view(2, 4, 3, 3)}


def _layer(sizes: tuple[int, int, int, int], n_heads: int, mask: Tensor) -> Arguments:
    B, T, S, D = sizes
    rng = torch.Generator().manual_seed(sum(sizes))
    vectors = {
        "x": torch.randn(B, T, D, generator=rng),
        "memory": torch.randn(B, S, D, generator=rng),
    }
    names = ("w_q", "w_k", "w_v", "w_o")
    matrices = {name: torch.randn(D, D, generator=rng) for name in names}
    return {**vectors, **matrices, "n_heads": n_heads, "mask": mask}


@sheet.cases(multi_head)
def _layers() -> Iterator[Arguments]:
    seen = torch.ones(1, 1, 1, 1, dtype=torch.bool)
    yield _layer((1, 1, 2, 2), 1, seen)
    yield _layer((1, 2, 3, 4), 2, seen)
    hidden = torch.tensor([[True, True, True], [True, False, False]]).view(2, 1, 1, 3)
    yield _layer((2, 3, 3, 8), 4, hidden)
    yield _layer((2, 4, 4, 6), 3, torch.ones(4, 4, dtype=torch.bool).tril()[None, None])


# ------------------------------------------------------------------ mistakes


@sheet.mistake(
    split_heads,
    "you reshape straight to (B, H, T, Dh): that mixes positions into heads; cut the width first, "
    "then transpose",
)
def _wrong_reshape(x: Tensor, n_heads: int) -> Tensor:
    B, T, D = x.shape
    return x.reshape(B, n_heads, T, D // n_heads)


@sheet.mistake(
    split_heads,
    "your heads take every H-th number: view the width as (H, Dh), not as (Dh, H)",
)
def _interleaved(x: Tensor, n_heads: int) -> Tensor:
    B, T, D = x.shape
    return x.view(B, T, D // n_heads, n_heads).permute(0, 3, 1, 2)


@sheet.mistake(split_heads, "the heads still stand behind the positions: transpose axes 1 and 2")
def _not_moved(x: Tensor, n_heads: int) -> Tensor:
    return x.view(*x.shape[:2], n_heads, -1)


@sheet.mistake(
    join_heads,
    "you reshape without moving the heads: positions and heads are mixed; transpose axes 1 and 2 "
    "first",
)
def _not_moved_back(x: Tensor) -> Tensor:
    B, H, T, Dh = x.shape
    return x.reshape(B, T, H * Dh)


@sheet.mistake(join_heads, "the numbers of the heads are interleaved: put whole heads side by side")
def _joined_interleaved(x: Tensor) -> Tensor:
    return x.permute(0, 2, 3, 1).flatten(2)


@sheet.mistake(join_heads, "you add the heads: put them side by side")
def _added(x: Tensor) -> Tensor:
    return x.sum(dim=1)


def _variant(
    x: Tensor,
    memory: Tensor,
    w_q: Tensor,
    w_k: Tensor,
    w_v: Tensor,
    n_heads: int,
    mask: Tensor,
    *,
    scale: float | None = None,
    axis: int = -1,
) -> Tensor:
    """Multi-head attention before W_o, with a scale or an axis of the softmax of one's own."""
    q = split_heads(x @ w_q, n_heads)
    k, v = split_heads(memory @ w_k, n_heads), split_heads(memory @ w_v, n_heads)
    scores = q @ k.mT / (math.sqrt(q.shape[-1]) if scale is None else scale)
    weights = scores.masked_fill(~mask, float("-inf")).softmax(dim=axis)
    return join_heads(weights @ v)


@sheet.mistake(multi_head, "W_o is missing: mix the joined heads by @ w_o")
def _without_w_o(w_o: Tensor, **others: Any) -> Tensor:
    return _variant(**others)


@sheet.mistake(
    multi_head, "you scale by √D: a head's scores are sums of Dh products, so divide by √Dh"
)
def _scaled_by_all(w_o: Tensor, **others: Any) -> Tensor:
    return _variant(**others, scale=math.sqrt(len(w_o))) @ w_o


@sheet.mistake(multi_head, "your scores are not scaled: divide them by √Dh")
def _unscaled(w_o: Tensor, **others: Any) -> Tensor:
    return _variant(**others, scale=1.0) @ w_o


@sheet.mistake(multi_head, "you divide by Dh: divide by its square root")
def _scaled_by_width(w_o: Tensor, **others: Any) -> Tensor:
    width = len(w_o) / int(others["n_heads"])
    return _variant(**others, scale=width) @ w_o


@sheet.mistake(multi_head, "the mask is not used: what is hidden is looked at")
def _mask_ignored(w_o: Tensor, mask: Tensor, **others: Any) -> Tensor:
    seen = torch.ones_like(mask)
    return _variant(**others, mask=seen) @ w_o


@sheet.mistake(multi_head, "your mask is inverted: True means that a key may be looked at")
def _mask_inverted(w_o: Tensor, mask: Tensor, **others: Any) -> Tensor:
    return _variant(**others, mask=~mask) @ w_o


@sheet.mistake(
    multi_head, "your weights sum to 1 over queries, not keys: softmax along the last axis"
)
def _over_queries(w_o: Tensor, **others: Any) -> Tensor:
    return _variant(**others, axis=-2) @ w_o


@sheet.mistake(multi_head, "you attend with the whole width at once: split q, k and v into heads")
def _one_head(w_o: Tensor, n_heads: int, **others: Any) -> Tensor:
    return _variant(**others, n_heads=1) @ w_o


@sheet.mistake(multi_head, "keys and values come from x: they come from memory")
def _only_x(x: Tensor, memory: Tensor, w_o: Tensor, **others: Any) -> Tensor:
    return _variant(x, x, **others) @ w_o


@sheet.mistake(multi_head, "you multiply by the transposed weights: a projection is x @ w here")
def _transposed(w_o: Tensor, **others: Any) -> Tensor:
    turned = {
        name: one.mT if name in ("w_q", "w_k", "w_v") else one for name, one in others.items()
    }
    return _variant(**turned) @ w_o.mT
