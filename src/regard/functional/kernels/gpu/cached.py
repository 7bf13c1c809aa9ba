"""Attention of one new query a row to what is kept of the past or of the source, in Triton.

A program takes one head of one row. Nothing is reordered for a beam: a small table says in which
row of the cache each position of a row's past lies, and rows of one sentence share its source.
"""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

LOG2_E = 1.0 / math.log(2.0)
BLOCK = 32
"""Keys that a program handles at a time: sentences are short."""


@triton.jit
def _past(
    qkv, keys, values, table, places, out, n_room, scale,
    HEADS: tl.constexpr, D: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    d = tl.arange(0, D)
    asked = qkv + row * (3 * HEADS * D) + head * D + d
    query = tl.load(asked).to(tl.float32) * scale
    key, value = tl.load(asked + HEADS * D), tl.load(asked + 2 * HEADS * D)
    place = tl.load(places + row)
    mine = ((row * HEADS + head) * n_room + place) * D + d
    tl.store(keys + mine, key)
    tl.store(values + mine, value)
    top = tl.sum(query * key.to(tl.float32), 0)
    total = top * 0.0 + 1.0
    found = value.to(tl.float32)
    for begin in range(0, place, BLOCK):
        s = begin + tl.arange(0, BLOCK)
        seen = s < place
        rows = tl.load(table + row * n_room + s, mask=seen, other=0).to(tl.int64)
        at = ((rows * HEADS + head) * n_room + s)[:, None] * D + d[None, :]
        past = tl.load(keys + at, mask=seen[:, None], other=0.0).to(tl.float32)
        scores = tl.where(seen, tl.sum(past * query[None, :], 1), -float("inf"))
        higher = tl.maximum(top, tl.max(scores, 0))
        weights, shrunk = tl.exp2(scores - higher), tl.exp2(top - higher)
        past = tl.load(values + at, mask=seen[:, None], other=0.0).to(tl.float32)
        total = total * shrunk + tl.sum(weights, 0)
        found = found * shrunk + tl.sum(weights[:, None] * past, 0)
        top = higher
    here = out + (row * HEADS + head) * D + d
    tl.store(here, (found / total).to(out.dtype.element_ty))


@triton.jit
def _source(
    q, keys, values, owners, begins, lengths, out, stride, scale,
    HEADS: tl.constexpr, D: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    d = tl.arange(0, D)
    owner = tl.load(owners + row)
    begin, length = tl.load(begins + owner).to(tl.int64), tl.load(lengths + owner)
    query = tl.load(q + (row * HEADS + head) * D + d).to(tl.float32) * scale
    top = tl.sum(query, 0) * 0.0 - 1.0e30
    total = top * 0.0
    found = query * 0.0
    for first in range(0, length, BLOCK):
        s = first + tl.arange(0, BLOCK)
        seen = s < length
        at = (begin + s)[:, None] * stride + head * D + d[None, :]
        read = tl.load(keys + at, mask=seen[:, None], other=0.0).to(tl.float32)
        scores = tl.where(seen, tl.sum(read * query[None, :], 1), -float("inf"))
        higher = tl.maximum(top, tl.max(scores, 0))
        weights, shrunk = tl.exp2(scores - higher), tl.exp2(top - higher)
        read = tl.load(values + at, mask=seen[:, None], other=0.0).to(tl.float32)
        total = total * shrunk + tl.sum(weights, 0)
        found = found * shrunk + tl.sum(weights[:, None] * read, 0)
        top = higher
    found = found / tl.where(total == 0.0, 1.0, total)  # a source of nothing gives zeros
    tl.store(out + (row * HEADS + head) * D + d, found.to(out.dtype.element_ty))


def attend_past(qkv: Tensor, past: Tensor, table: Tensor, places: Tensor, scale: float) -> Tensor:
    """As ``functional.stepping.attend_past``."""
    _, _, H, L, D = past.shape
    R = qkv.shape[0]
    out = torch.empty(R, H * D, dtype=qkv.dtype, device=qkv.device)
    _past[(R, H)](
        qkv, past[0], past[1], table, places, out, L, scale * LOG2_E,
        HEADS=H, D=D, BLOCK=BLOCK, num_warps=_warps(R * H),
    )  # fmt: skip
    return out


def attend_source(
    q: Tensor, memory: Tensor, owners: Tensor, begins: Tensor, lengths: Tensor, scale: float
) -> Tensor:
    """As ``functional.stepping.attend_source``."""
    _, _, H, D = memory.shape
    R = q.shape[0]
    out = torch.empty_like(q)
    _source[(R, H)](
        q, memory[:, 0], memory[:, 1], owners, begins, lengths, out, memory.stride(0),
        scale * LOG2_E, HEADS=H, D=D, BLOCK=BLOCK, num_warps=_warps(R * H),
    )  # fmt: skip
    return out


def _warps(n_programs: int) -> int:
    """Few programs hurry one by one; of many, more run at once if each is small."""
    return 4 if n_programs < 1024 else 1
