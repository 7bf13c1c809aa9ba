"""Attention of a text's newest token to the text, in Triton: turned, kept and looked at in one go.

A program takes one head of one row. Heads that share keys each turn the new key for themselves;
the first of them keeps it.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from regard.kernels.gpu.cached import LOG2_E, _found
from regard.kernels.gpu.early import early

BLOCK = 128
"""Keys that a program handles at a time: texts are long."""


@triton.jit
def _turned(x, turns, D: tl.constexpr, ROTARY: tl.constexpr):
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
def _block(keys, values, s, place, D: tl.constexpr):
    """Keys and values of a head at positions s (BLOCK,)."""
    at, seen = s[:, None] * D + tl.arange(0, D)[None, :], (s < place)[:, None]
    return tl.load(keys + at, mask=seen, other=0.0), tl.load(values + at, mask=seen, other=0.0)


@triton.jit
def _own(
    qkv, keys, values, place_at, turns, out, n_room, scale,
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
    place = tl.load(place_at)
    # What was written in earlier steps is there already; this step's query is not.
    past, kept = _block(keys, values, s, place, D)
    if EARLY:
        tl.extra.cuda.gdc_wait()
        tl.extra.cuda.gdc_launch_dependents()
    mine = qkv + row * ((HEADS + 2 * GROUPS) * D)
    turns += place * D
    query = _turned(mine + head * D, turns, D, ROTARY) * scale
    key = _turned(mine + (HEADS + group) * D, turns, D, ROTARY)
    value = tl.load(mine + (HEADS + GROUPS + group) * D + d).to(tl.float32)
    if head % (HEADS // GROUPS) == 0:
        tl.store(keys + place * D + d, key.to(keys.dtype.element_ty))
        tl.store(values + place * D + d, value.to(values.dtype.element_ty))
    top = tl.sum(query * key, 0)
    total, found = top * 0.0 + 1.0, value
    top, total, found = _found(query, past, kept, s < place, top, total, found)
    for begin in range(BLOCK, place, BLOCK):
        past, kept = _block(keys, values, begin + s, place, D)
        top, total, found = _found(query, past, kept, begin + s < place, top, total, found)
    tl.store(out + (row * HEADS + head) * D + d, (found / total).to(out.dtype.element_ty))


def attend_own(
    qkv: Tensor, past: Tensor, place: Tensor, turns: Tensor | None, scale: float
) -> Tensor:
    """As ``kernels.steps.attend_own``."""
    _, _, G, L, D = past.shape
    R, H = qkv.shape[0], qkv.shape[1] // D - 2 * G
    out = torch.empty(R, H * D, dtype=qkv.dtype, device=qkv.device)
    pairs = qkv if turns is None else torch.view_as_real(turns)
    _own[(R, H)](
        qkv, past[0], past[1], place, pairs, out, L, scale * LOG2_E,
        HEADS=H, GROUPS=G, D=D, BLOCK=BLOCK, ROTARY=turns is not None,
        num_warps=4, **early(out.device),
    )  # fmt: skip
    return out
