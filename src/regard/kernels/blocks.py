"""Windows in time and memory that grow with T alone: blocks of queries, and the keys near them.

Plain torch, forward and backward, on any device. Queries are cut into nB blocks of L. The keys that
block i may see lie in one stretch of W keys, which begins L keys after that of block i - 1.

Two windows of long texts need no mask, and so any kernel for plain causal attention will do. The
blocks of a text whose future is hidden are texts of their own. And of a text in slots every third
query (were a slot three positions) sees one slot more than the one before: three causal attentions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.functional.masks import Block, Near, Slots
from regard.functional.positions import Alibi
from regard.functional.scores import Factors
from regard.kernels.call import Call
from regard.kernels.sdpa import joined

STEP = 64
"""Queries of a block, at least: smaller products are no faster."""


class Cut(NamedTuple):
    """How queries and keys are cut."""

    n_blocks: int
    """nB"""
    step: int
    """L"""
    width: int
    """W"""
    lead: int
    """Empty places before the first query."""
    first_query: int
    """The position of the first place of the first block."""
    first_key: int
    """The position where the stretch of the first block begins."""

    @property
    def n_keys(self) -> int:
        """Keys of all stretches together."""
        return (self.n_blocks - 1) * self.step + self.width

    def positions(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """Of queries (nB, L, 1) and of keys (nB, 1, W)."""
        n = torch.arange(self.n_blocks, device=device)[:, None, None] * self.step
        t = n + torch.arange(self.step, device=device)[:, None] + self.first_query
        return t, n + torch.arange(self.width, device=device) + self.first_key


def fits(call: Call) -> bool:
    """Whether there is a window that can be cut so, and a key near some query."""
    near = call.near
    if near is None or isinstance(near, Slots) or not call.by_positions:
        return False
    return -call.n_queries < call.first(near) < call.n_keys


def pays(call: Call) -> bool:
    """Whether there are so many keys that cutting is faster than a mask; measured on a CPU."""
    return call.n_queries >= 2 * STEP and call.n_keys >= 2 * _cut(call).width


def in_blocks(call: Call) -> Tensor:
    """q (B, H, T, D), k (B, H, S, D), v (B, H, S, Dv) -> (B, H, T, Dv)."""
    q, k, scale = call.factors
    B, T = q.shape[0], call.n_queries
    cut = _cut(call)
    after = cut.n_blocks * cut.step - cut.lead - T
    queries = F.pad(q, (0, 0, cut.lead, after)).unflatten(2, (cut.n_blocks, cut.step))
    found = F.scaled_dot_product_attention(
        queries.transpose(1, 2).flatten(0, 1),  # (B, H, nB, L, D) -> (B·nB, H, L, D)
        _stretches(k, cut),
        _stretches(call.v, cut),
        attn_mask=_allowed(call, cut),
        scale=scale,
    )
    found = found.unflatten(0, (B, cut.n_blocks)).transpose(1, 2).flatten(2, 3)
    return found[:, :, cut.lead : cut.lead + T]


Run = Callable[[Call], Tensor]
"""What does the plain causal attentions."""


def _unmasked(call: Call) -> bool:
    """Whether inner products (B, H, T, D) of a text from its beginning are hidden by order only."""
    near = call.near
    return near is not None and call.first(near) == 0 and call.by_positions and call.is_bare


def are_own_texts(call: Call) -> bool:
    """Whether the blocks of a text can be read as texts of their own."""
    near, T = call.near, call.n_queries
    if not isinstance(near, Block) or not _unmasked(call):
        return False
    return call.causal and call.n_keys == T and STEP <= near.length < T


def as_own_texts(call: Call, run: Run) -> Tensor:
    """q, k (B, H, T, D), v (B, H, T, Dv) -> (B, H, T, Dv): each block alone, none of its future."""
    q, k, scale = call.factors
    assert isinstance(call.near, Block)
    (B, T), L = (len(q), call.n_queries), call.near.length
    n_blocks = -(-T // L)

    def cut(x: Tensor) -> Tensor:  # (B, H, T, D) -> (B·nB, H, L, D), zeros behind the last
        x = F.pad(x, (0, 0, 0, n_blocks * L - T)).unflatten(2, (n_blocks, L))
        return x.transpose(1, 2).flatten(0, 1)

    found = run(Call(Factors(cut(q), cut(k), scale), cut(call.v), None, causal=True))
    return found.unflatten(0, (B, n_blocks)).transpose(1, 2).flatten(2, 3)[:, :, :T]


def are_turns(call: Call) -> bool:
    """Whether queries from a text's beginning look at all its slots."""
    near = call.near
    if not isinstance(near, Slots) or not _unmasked(call):
        return False
    return not call.causal and call.n_keys == call.n_queries // near.stride + 1


def in_turns(call: Call, run: Run) -> Tensor:
    """q (B, H, T, D), slots k (B, H, S, D), v (B, H, S, Dv) -> (B, H, T, Dv).

    A query at position stride·i + r - 1 sees the keys 0 to i: for each r that is plain causality.
    """
    q, k, scale = call.factors
    assert isinstance(call.near, Slots)
    stride, S, T = call.near.stride, call.n_keys, call.n_queries
    turns = F.pad(q, (0, 0, 1, stride * S - T - 1)).unflatten(2, (S, stride)).unbind(3)
    found = [run(Call(Factors(turn, k, scale), call.v, None, causal=True)) for turn in turns]
    return torch.stack(found, dim=3).flatten(2, 3)[:, :, 1 : T + 1]


def _cut(call: Call) -> Cut:
    near = call.near
    assert isinstance(near, Near | Block)
    first = call.first(near)
    if isinstance(near, Near):
        # Twice as many keys as queries a block is a fair price for copying keys.
        step, lead, begin = max(STEP, 2 * near.half_width), 0, first - near.half_width
        ahead = not (call.causal and call.n_keys - call.n_queries <= first)
        width = step + near.half_width * (2 if ahead else 1)
    else:
        step = near.length * max(1, STEP // near.length)
        lead = first % near.length
        begin, width = first - lead, step
    n_blocks = -(-(lead + call.n_queries) // step)
    return Cut(n_blocks, step, width, lead, first - lead, begin)


def _stretches(x: Tensor, cut: Cut) -> Tensor:
    """(B, H, S, D) -> (B·nB, H, W, D), zeros where there is no key."""
    n_keys = x.shape[2]
    held = F.pad(x, (0, 0, -cut.first_key, cut.first_key + cut.n_keys - n_keys))  # or cropped
    return held.unfold(2, cut.width, cut.step).permute(0, 2, 1, 4, 3).flatten(0, 1)


def _allowed(call: Call, cut: Cut) -> Tensor:
    """(B·nB, 1 or H, L, W): what may be seen, with what is added."""
    near, S, device = call.near, call.n_keys, call.factors.q.device
    assert near is not None
    t, s = cut.positions(device)
    seen = near.sees(t, s) & (s >= 0) & (s < S)  # (nB, L, W)
    if call.causal:
        seen = seen & (s <= t - call.first(near) + S - call.n_queries)
    seen = seen.unsqueeze(1)  # (nB, 1, L, W)
    if (real := call.padding()) is not None:
        held = F.pad(real, (-cut.first_key, cut.first_key + cut.n_keys - S))
        seen = seen & held.unfold(3, cut.width, cut.step).permute(0, 3, 1, 2, 4)  # (B, nB, H, 1, W)
    bias = None
    if isinstance(call.bias, Alibi):
        moved = call.first(call.bias) - call.first(near)
        bias = call.bias.between(t + moved, s).transpose(0, 1).to(call.factors.q.dtype)
    allowed = joined(seen, bias)
    assert allowed is not None
    return allowed.expand(call.v.shape[0], -1, -1, -1, -1).flatten(0, 1)
