"""Attention of one new query a row to what is kept of the past or of the source, in Triton.

A program takes one head of one row. Nothing is reordered for a beam: a small table says in which
row of the cache each position of a row's past lies, and rows of one sentence share its source. A
language model's newest token is rotated, kept and attended in one go: heads that share keys each
rotate the new key for themselves, and the first of them keeps it.
"""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

from regard.kernels.gpu import early
from regard.kernels.gpu.step_rows import wait

LOG2_E = 1.0 / math.log(2.0)
BLOCK = 32
"""Keys that a program handles at a time: sentences are short."""

LONG_BLOCK = 128
"""Keys that a program handles at a time: texts are long."""


@triton.jit
def _found(query, keys, values, seen, top, total, found):
    """One block of keys (BLOCK, D) more: the highest score, the weights' sum and what is found."""
    scores = tl.where(seen, tl.sum(keys.to(tl.float32) * query[None, :], 1), -float("inf"))
    higher = tl.maximum(top, tl.max(scores, 0))
    weights, shrunk = tl.exp2(scores - higher), tl.exp2(top - higher)
    total = total * shrunk + tl.sum(weights, 0)
    found = found * shrunk + tl.sum(weights[:, None] * values.to(tl.float32), 0)
    return higher, total, found


@triton.jit
def _past_block(
    keys, values, table, s, position, head, n_room, HEADS: tl.constexpr, D: tl.constexpr
):
    """Keys and values at positions s (BLOCK,) of a row's past; ``table`` is that row's."""
    seen = s < position
    rows = tl.load(table + s, mask=seen, other=0).to(tl.int64)
    at = ((rows * HEADS + head) * n_room + s)[:, None] * D + tl.arange(0, D)[None, :]
    past = tl.load(keys + at, mask=seen[:, None], other=0.0)
    return past, tl.load(values + at, mask=seen[:, None], other=0.0)


@triton.jit
def _past(
    qkv, keys, values, table, positions, out, n_room, scale,
    HEADS: tl.constexpr, D: tl.constexpr, BLOCK: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    d, s = tl.arange(0, D), tl.arange(0, BLOCK)
    table += row * n_room
    position = tl.load(positions + row)
    # What was written in earlier steps is there already; this step's query is not.
    past, kept = _past_block(keys, values, table, s, position, head, n_room, HEADS, D)
    wait(EARLY)
    asked = qkv + row * (3 * HEADS * D) + head * D + d
    query = tl.load(asked).to(tl.float32) * scale
    key, value = tl.load(asked + HEADS * D), tl.load(asked + 2 * HEADS * D)
    mine = ((row * HEADS + head) * n_room + position) * D + d
    tl.store(keys + mine, key)
    tl.store(values + mine, value)
    top = tl.sum(query * key.to(tl.float32), 0)
    total, found = top * 0.0 + 1.0, value.to(tl.float32)
    top, total, found = _found(query, past, kept, s < position, top, total, found)
    for begin in range(BLOCK, position, BLOCK):
        past, kept = _past_block(keys, values, table, begin + s, position, head, n_room, HEADS, D)
        top, total, found = _found(query, past, kept, begin + s < position, top, total, found)
    here = out + (row * HEADS + head) * D + d
    tl.store(here, (found / total).to(out.dtype.element_ty))


@triton.jit
def _source_block(keys, values, s, begin, length, head, stride, D: tl.constexpr):
    """Keys and values of the source's tokens s (BLOCK,)."""
    at = (begin + s)[:, None] * stride + head * D + tl.arange(0, D)[None, :]
    seen = (s < length)[:, None]
    return tl.load(keys + at, mask=seen, other=0.0), tl.load(values + at, mask=seen, other=0.0)


@triton.jit
def _source(
    q, keys, values, owners, begins, lengths, out, stride, scale,
    HEADS: tl.constexpr, D: tl.constexpr, BLOCK: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    d, s = tl.arange(0, D), tl.arange(0, BLOCK)
    owner = tl.load(owners + row)
    begin, length = tl.load(begins + owner).to(tl.int64), tl.load(lengths + owner)
    read, kept = _source_block(keys, values, s, begin, length, head, stride, D)
    wait(EARLY)
    query = tl.load(q + (row * HEADS + head) * D + d).to(tl.float32) * scale
    top = tl.sum(query, 0) * 0.0 - 1.0e30
    top, total, found = _found(query, read, kept, s < length, top, top * 0.0, query * 0.0)
    for first in range(BLOCK, length, BLOCK):
        read, kept = _source_block(keys, values, first + s, begin, length, head, stride, D)
        top, total, found = _found(query, read, kept, first + s < length, top, total, found)
    found = found / tl.where(total == 0.0, 1.0, total)  # a source of nothing gives zeros
    tl.store(out + (row * HEADS + head) * D + d, found.to(out.dtype.element_ty))


def attend_past(
    qkv: Tensor, past: Tensor, table: Tensor, positions: Tensor, scale: float
) -> Tensor:
    """The kernel behind ``kernels.steps.attend_past``."""
    _, _, H, L, D = past.shape
    R = qkv.shape[0]
    out = torch.empty(R, H * D, dtype=qkv.dtype, device=qkv.device)
    _past[(R, H)](
        qkv, past[0], past[1], table, positions, out, L, scale * LOG2_E,
        HEADS=H, D=D, BLOCK=BLOCK, num_warps=_warps(R * H), **early(out.device),
    )  # fmt: skip
    return out


def attend_source(
    q: Tensor, memory: Tensor, owners: Tensor, begins: Tensor, lengths: Tensor, scale: float
) -> Tensor:
    """The kernel behind ``kernels.steps.attend_source``."""
    _, _, H, D = memory.shape
    R = q.shape[0]
    out = torch.empty_like(q)
    _source[(R, H)](
        q, memory[:, 0], memory[:, 1], owners, begins, lengths, out, memory.stride(0),
        scale * LOG2_E, HEADS=H, D=D, BLOCK=BLOCK, num_warps=_warps(R * H), **early(out.device),
    )  # fmt: skip
    return out


def _warps(n_programs: int) -> int:
    """Few programs hurry one by one; of many, more run at once if each is small."""
    return 4 if n_programs < 1024 else 1


@triton.jit
def _rotated(x, turns, D: tl.constexpr, ROTARY: tl.constexpr):
    """A head (D,) in float32, its pairs turned; ``turns`` (D / 2, 2) are cosines and sines."""
    d = tl.arange(0, D)
    y = tl.load(x + d).to(tl.float32)
    if ROTARY:
        other = tl.load(x + (d ^ 1)).to(tl.float32)
        pair = turns + (d // 2) * 2
        sign = tl.where(d % 2 == 0, -1.0, 1.0)
        y = y * tl.load(pair) + sign * other * tl.load(pair + 1)
    return y


@triton.jit
def _block(keys, values, s, position, D: tl.constexpr):
    """Keys and values of a head at positions s (BLOCK,)."""
    at, seen = s[:, None] * D + tl.arange(0, D)[None, :], (s < position)[:, None]
    return tl.load(keys + at, mask=seen, other=0.0), tl.load(values + at, mask=seen, other=0.0)


@triton.jit
def _own(
    qkv, keys, values, position_at, turns, out, n_room, scale,
    HEADS: tl.constexpr, GROUPS: tl.constexpr, D: tl.constexpr, BLOCK: tl.constexpr,
    ROTARY: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    group = head // (HEADS // GROUPS)
    d, s = tl.arange(0, D), tl.arange(0, BLOCK)
    lies = (row * GROUPS + group) * n_room * D
    keys += lies
    values += lies
    position = tl.load(position_at)
    # What was written in earlier steps is there already; this step's query is not.
    past, kept = _block(keys, values, s, position, D)
    wait(EARLY)
    mine = qkv + row * ((HEADS + 2 * GROUPS) * D)
    turns += position * D
    query = _rotated(mine + head * D, turns, D, ROTARY) * scale
    key = _rotated(mine + (HEADS + group) * D, turns, D, ROTARY)
    value = tl.load(mine + (HEADS + GROUPS + group) * D + d).to(tl.float32)
    if head % (HEADS // GROUPS) == 0:
        tl.store(keys + position * D + d, key.to(keys.dtype.element_ty))
        tl.store(values + position * D + d, value.to(values.dtype.element_ty))
    top = tl.sum(query * key, 0)
    total, found = top * 0.0 + 1.0, value
    top, total, found = _found(query, past, kept, s < position, top, total, found)
    for begin in range(BLOCK, position, BLOCK):
        past, kept = _block(keys, values, begin + s, position, D)
        top, total, found = _found(query, past, kept, begin + s < position, top, total, found)
    tl.store(out + (row * HEADS + head) * D + d, (found / total).to(out.dtype.element_ty))


def attend_own(
    qkv: Tensor, past: Tensor, position: Tensor, turns: Tensor | None, scale: float
) -> Tensor:
    """The kernel behind ``kernels.steps.attend_own``."""
    _, _, G, L, D = past.shape
    R, H = qkv.shape[0], qkv.shape[1] // D - 2 * G
    out = torch.empty(R, H * D, dtype=qkv.dtype, device=qkv.device)
    pairs = qkv if turns is None else torch.view_as_real(turns)
    _own[(R, H)](
        qkv, past[0], past[1], position, pairs, out, L, scale * LOG2_E,
        HEADS=H, GROUPS=G, D=D, BLOCK=LONG_BLOCK, ROTARY=turns is not None,
        num_warps=4, **early(out.device),
    )  # fmt: skip
    return out
