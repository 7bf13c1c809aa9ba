"""Torch's flex_attention, for windows and biases over long texts on a GPU.

Tiles of keys that no query of a tile may see are never touched. Which those are depends on lengths
alone, so it is worked out once a shape. Padding is a matter of scores: a hidden key's is -inf.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, flex_attention

from regard.functional.masks import Near, Nearby, Slots
from regard.functional.positions import Alibi
from regard.kernels.call import Call, may_ask

TILE = 128
"""Queries and keys of a tile."""
Mod = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
"""(batch, head, query, key), all indices -> whether it is seen."""


def flex(call: Call) -> Tensor:
    """q (B, H, T, D), k (B, H, S, D), v (B, H, S, Dv) -> (B, H, T, Dv)."""
    return run(call, flex_attention if torch.compiler.is_compiling() else _compiled())


def run(call: Call, attend: Any) -> Tensor:
    """By flex_attention, compiled or not."""
    q, k, scale = call.factors
    near, tiles, seen = call.near, None, None
    first = 0 if near is None else call.first(near)
    if (call.causal or near is not None) and torch.compiler.is_compiling():
        seen = _mod(near, call.causal, first, call.n_keys - call.n_queries)
    elif call.causal or near is not None:
        near = near and near._replace(first=first)
        known = tiles_seen if may_ask() else _kept_tiles
        tiles = known(near, call.causal, call.n_queries, call.n_keys, q.device)
    changed = _changed(call, seen)
    return cast("Tensor", attend(q, k, call.v, score_mod=changed, block_mask=tiles, scale=scale))


@cache
def _compiled() -> Any:
    return torch.compile(flex_attention)


def _mod(near: Nearby | None, causal: bool, first: int, behind: int) -> Mod:
    """What the window, counted from ``first``, and the future, from ``behind`` on, leave."""

    def seen(_b: Tensor, _h: Tensor, t: Tensor, s: Tensor) -> Tensor:
        if near is None:
            return s <= t + behind
        inside = near.sees(t + first, s)
        return inside & (s <= t + behind) if causal else inside

    return seen


def _changed(call: Call, seen: Mod | None) -> Any:
    """What becomes of a score: bias, padding, and what no tile says."""
    slopes, place = None, 0
    if isinstance(call.bias, Alibi):
        slopes, place = call.bias.slopes, call.first(call.bias)
    real = call.padding()
    if real is not None:
        real = real.expand(*call.v.shape[:2], -1, -1)
    if slopes is None and real is None and seen is None:
        return None

    def changed(score: Tensor, b: Tensor, h: Tensor, t: Tensor, s: Tensor) -> Tensor:
        if slopes is not None:
            score = score - slopes[h] * (t + place - s).abs()
        if real is not None:
            score = torch.where(real[b, h, 0, s], score, -float("inf"))
        if seen is not None:
            score = torch.where(seen(b, h, t, s), score, -float("inf"))
        return score

    return changed


@lru_cache(maxsize=64, typed=True)  # Near(9) == Block(9), as tuples
@torch.inference_mode(False)  # whoever asks first: training has to keep them too
def tiles_seen(
    near: Nearby | None, causal: bool, n_queries: int, n_keys: int, device: torch.device
) -> BlockMask:
    """Which tiles hold a pair that may be seen, and which hold nothing else.

    Worked out from the tiles' corners: a table of all pairs would need the memory that this saves.
    """
    behind = n_keys - n_queries
    first = behind if near is None or near.first is None else near.first
    t, s = (torch.arange(0, n, TILE, device=device) for n in (n_queries, n_keys))
    t = t.unsqueeze(1)
    t_last, s_last = t + TILE - 1, s + TILE - 1
    some = torch.ones(len(t), len(s), dtype=torch.bool, device=device)
    every = (t_last < n_queries) & (s_last < n_keys)  # a tile over the edge has to be looked at
    if causal:
        some, every = some & (s <= t_last + behind), every & (s_last <= t + behind)
    if near is not None:
        a, z = t + first, t_last + first
        if isinstance(near, Near):
            apart = torch.maximum(s - z, a - s_last)  # between the nearest of the two
            widest = torch.maximum(z - s, s_last - a)
            some, every = some & (apart <= near.half_width), every & (widest <= near.half_width)
        elif isinstance(near, Slots):
            some = some & (near.stride * s <= z + 1)
            every = every & (near.stride * s_last <= a + 1)
        else:
            L = near.length
            some = some & (a // L <= s_last // L) & (s // L <= z // L)
            every = every & (a // L == s_last // L) & (s // L == z // L)
    counts, order = _listed(some & ~every)
    full_counts, full_order = _listed(some & every)
    return BlockMask.from_kv_blocks(
        counts, order, full_counts, full_order, BLOCK_SIZE=TILE,
        mask_mod=_mod(near, causal, first, behind), seq_lengths=(n_queries, n_keys),
    )  # fmt: skip


_kept_tiles = lru_cache(maxsize=None, typed=True)(tiles_seen)
"""Those that a recorded graph of kernels points to: never dropped. Recordings have few shapes."""


def _listed(tiles: Tensor) -> tuple[Tensor, Tensor]:
    """(rows, columns) -> how many of each row, and which, those first: as BlockMask wants it."""
    order = tiles.int().argsort(dim=-1, descending=True, stable=True)
    return tiles.sum(dim=-1, dtype=torch.int32)[None, None], order.int()[None, None].contiguous()
