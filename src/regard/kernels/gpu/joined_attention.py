"""Self-attention over short rows of one length, in Triton: what a Vision Transformer does.

Queries, keys and values are one product of the input, and their gradient is written as one tensor
that the next product takes as it is: nothing is copied in between. A picture has 65 or 197 patches;
kernels for texts compute tiles of 128, which are half empty then. Here a row of T positions is so
many steps of 64 and a smaller last one.
"""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

LOG2_E = 1.0 / math.log(2.0)
STEP = 64
"""Positions of a tile."""
SMALLEST = 16
"""Positions of the smallest tile that matrix units take."""


@triton.jit
def _tile(pointer, begin, stride, T: tl.constexpr, ROWS: tl.constexpr, D: tl.constexpr):
    """Positions from ``begin`` on -> (ROWS, D), zeros beyond the last."""
    t = begin + tl.arange(0, ROWS)
    places = pointer + t[:, None] * stride + tl.arange(0, D)[None, :]
    return tl.load(places, mask=(t < T)[:, None], other=0.0)


@triton.jit
def _keep(pointer, x, begin, stride, T: tl.constexpr, ROWS: tl.constexpr, D: tl.constexpr):
    """The inverse of ``_tile``."""
    t = begin + tl.arange(0, ROWS)
    places = pointer + t[:, None] * stride + tl.arange(0, D)[None, :]
    tl.store(places, x.to(pointer.dtype.element_ty), mask=(t < T)[:, None])


@triton.jit
def _see(
    queries, k, v, at, row, top, total, found, scale,
    T: tl.constexpr, KEYS: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """Take in keys and values from position ``at`` on: a softmax that is not divided yet."""
    keys, values = _tile(k, at, row, T, KEYS, D), _tile(v, at, row, T, KEYS, D)
    scores = tl.dot(queries, tl.trans(keys), input_precision="ieee") * scale
    scores = tl.where((at + tl.arange(0, KEYS) < T)[None, :], scores, float("-inf"))
    highest = tl.maximum(top, tl.max(scores, 1))
    weights = tl.exp2(scores - highest[:, None])
    shrink = tl.exp2(top - highest)
    found = found * shrink[:, None]
    found = tl.dot(weights.to(values.dtype), values, found, input_precision="ieee")
    return highest, total * shrink + tl.sum(weights, 1), found


@triton.jit
def _look(
    q, k, v, out, sums, begin, row, out_row, scale,
    T: tl.constexpr, ROWS: tl.constexpr, STEP: tl.constexpr, REST: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """Queries begin … begin + ROWS look at all keys."""
    queries = _tile(q, begin, row, T, ROWS, D)
    top = tl.full((ROWS,), float("-inf"), tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    found = tl.zeros((ROWS, D), tl.float32)
    for at in range(0, T // STEP * STEP, STEP):
        top, total, found = _see(queries, k, v, at, row, top, total, found, scale, T, STEP, D)
    if REST > 0:
        at = T // STEP * STEP
        top, total, found = _see(queries, k, v, at, row, top, total, found, scale, T, REST, D)
    _keep(out, found / total[:, None], begin, out_row, T, ROWS, D)
    t = begin + tl.arange(0, ROWS)
    tl.store(sums + t, top + tl.log2(total), mask=t < T)


@triton.jit
def _forward(
    qkv, out, sums, scale,
    T: tl.constexpr, H: tl.constexpr, D: tl.constexpr, STEP: tl.constexpr, REST: tl.constexpr,
):  # fmt: skip
    b, h = tl.program_id(0) // H, tl.program_id(0) % H
    row: tl.constexpr = 3 * H * D
    q = qkv + b.to(tl.int64) * T * row + h * D
    out += b.to(tl.int64) * T * H * D + h * D
    sums += tl.program_id(0) * T
    begin = tl.program_id(1) * STEP
    k, v = q + H * D, q + 2 * H * D
    if begin + STEP <= T:
        _look(q, k, v, out, sums, begin, row, H * D, scale, T, STEP, STEP, REST, D)
    elif REST > 0:
        _look(q, k, v, out, sums, begin, row, H * D, scale, T, REST, STEP, REST, D)


@triton.jit
def _be_seen(
    keys, values, q, out, sums, grad, at, row, out_row, of_keys, of_values, scale,
    T: tl.constexpr, QUERIES: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """Add what queries from position ``at`` on ask of these keys and values."""
    t = at + tl.arange(0, QUERIES)
    queries = _tile(q, at, row, T, QUERIES, D)
    wanted = _tile(grad, at, out_row, T, QUERIES, D)
    found = _tile(out, at, out_row, T, QUERIES, D)
    norm = tl.load(sums + t, mask=t < T, other=float("inf"))  # no weight beyond the last
    delta = tl.sum(wanted.to(tl.float32) * found.to(tl.float32), 1)
    scores = tl.dot(keys, tl.trans(queries), input_precision="ieee") * scale  # (keys, queries)
    weights = tl.exp2(scores - norm[None, :])
    of_values = tl.dot(weights.to(wanted.dtype), wanted, of_values, input_precision="ieee")
    of_weights = tl.dot(values, tl.trans(wanted), input_precision="ieee")
    of_scores = (weights * (of_weights - delta[None, :])).to(queries.dtype)
    return tl.dot(of_scores, queries, of_keys, input_precision="ieee"), of_values


@triton.jit
def _learn(
    queries, wanted, norm, delta, k, v, at, row, of_queries, scale,
    T: tl.constexpr, KEYS: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """Add what keys from position ``at`` on teach these queries; those beyond the last are zero."""
    keys, values = _tile(k, at, row, T, KEYS, D), _tile(v, at, row, T, KEYS, D)
    scores = tl.dot(queries, tl.trans(keys), input_precision="ieee") * scale
    weights = tl.exp2(scores - norm[:, None])
    of_weights = tl.dot(wanted, tl.trans(values), input_precision="ieee")
    of_scores = (weights * (of_weights - delta[:, None])).to(keys.dtype)
    return tl.dot(of_scores, keys, of_queries, input_precision="ieee")


@triton.jit
def _turn(
    q, k, v, out, sums, grad, of_q, of_k, of_v, begin, row, out_row, scale, natural,
    T: tl.constexpr, ROWS: tl.constexpr, STEP: tl.constexpr, REST: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """The gradients of positions begin … begin + ROWS: as keys and values, then as queries."""
    keys, values = _tile(k, begin, row, T, ROWS, D), _tile(v, begin, row, T, ROWS, D)
    of_keys, of_values = tl.zeros((ROWS, D), tl.float32), tl.zeros((ROWS, D), tl.float32)
    for at in range(0, T // STEP * STEP, STEP):
        of_keys, of_values = _be_seen(
            keys, values, q, out, sums, grad, at, row, out_row, of_keys, of_values, scale,
            T, STEP, D,
        )  # fmt: skip
    if REST > 0:
        of_keys, of_values = _be_seen(
            keys, values, q, out, sums, grad, T // STEP * STEP, row, out_row, of_keys, of_values,
            scale, T, REST, D,
        )  # fmt: skip
    _keep(of_k, of_keys * natural, begin, row, T, ROWS, D)
    _keep(of_v, of_values, begin, row, T, ROWS, D)
    t = begin + tl.arange(0, ROWS)
    queries = _tile(q, begin, row, T, ROWS, D)
    wanted = _tile(grad, begin, out_row, T, ROWS, D)
    found = _tile(out, begin, out_row, T, ROWS, D)
    norm = tl.load(sums + t, mask=t < T, other=float("inf"))
    delta = tl.sum(wanted.to(tl.float32) * found.to(tl.float32), 1)
    of_queries = tl.zeros((ROWS, D), tl.float32)
    for at in range(0, T // STEP * STEP, STEP):
        of_queries = _learn(
            queries, wanted, norm, delta, k, v, at, row, of_queries, scale, T, STEP, D
        )
    if REST > 0:
        at = T // STEP * STEP
        of_queries = _learn(
            queries, wanted, norm, delta, k, v, at, row, of_queries, scale, T, REST, D
        )
    _keep(of_q, of_queries * natural, begin, row, T, ROWS, D)


@triton.jit
def _backward(
    qkv, out, sums, grad, of_qkv, scale, natural,
    T: tl.constexpr, H: tl.constexpr, D: tl.constexpr, STEP: tl.constexpr, REST: tl.constexpr,
):  # fmt: skip
    b, h = tl.program_id(0) // H, tl.program_id(0) % H
    row: tl.constexpr = 3 * H * D
    n: tl.constexpr = H * D
    here = b.to(tl.int64) * T * row + h * D
    q, of_q = qkv + here, of_qkv + here
    k, v, of_k, of_v = q + n, q + 2 * n, of_q + n, of_q + 2 * n
    there = b.to(tl.int64) * T * n + h * D
    out += there
    grad += there
    sums += tl.program_id(0) * T
    begin = tl.program_id(1) * STEP
    if begin + STEP <= T:
        _turn(
            q, k, v, out, sums, grad, of_q, of_k, of_v, begin, row, n, scale, natural,
            T, STEP, STEP, REST, D,
        )  # fmt: skip
    elif REST > 0:
        _turn(
            q, k, v, out, sums, grad, of_q, of_k, of_v, begin, row, n, scale, natural,
            T, REST, STEP, REST, D,
        )  # fmt: skip


@torch.library.custom_op("regard::attend_joined", mutates_args=())
def attend_joined(qkv: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """qkv (B, T, 3, H, D) -> values (B, T, H, D), sums (B, H, T).

    The sums are the base-2 logarithms of the softmax's denominators, which backward needs.
    """
    B, T, _, H, D = qkv.shape
    qkv = qkv.contiguous()
    out = torch.empty(B, T, H, D, dtype=qkv.dtype, device=qkv.device)
    sums = torch.empty(B, H, T, dtype=torch.float32, device=qkv.device)
    _forward[(B * H, triton.cdiv(T, STEP))](
        qkv, out, sums, scale * LOG2_E, T=T, H=H, D=D, STEP=STEP, REST=_rest(T), num_warps=4
    )
    return out, sums


@torch.library.custom_op("regard::attend_joined_backward", mutates_args=())
def _attend_backward(qkv: Tensor, out: Tensor, sums: Tensor, grad: Tensor, scale: float) -> Tensor:
    B, T, _, H, D = qkv.shape
    qkv, grad = qkv.contiguous(), grad.contiguous()
    of_qkv = torch.empty_like(qkv)
    _backward[(B * H, triton.cdiv(T, STEP))](
        qkv, out, sums, grad, of_qkv, scale * LOG2_E, scale,
        T=T, H=H, D=D, STEP=STEP, REST=_rest(T), num_warps=4,
    )  # fmt: skip
    return of_qkv


def _rest(T: int) -> int:
    """The tile for what steps of 64 leave over; 0 where that is nothing."""
    left = T % STEP
    return max(SMALLEST, triton.next_power_of_2(left)) if left else 0


@attend_joined.register_fake
def _(qkv: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    B, T, _, H, D = qkv.shape
    return qkv.new_empty(B, T, H, D), qkv.new_empty(B, H, T, dtype=torch.float32)


@_attend_backward.register_fake
def _(qkv: Tensor, *_rest: object) -> Tensor:
    return qkv.new_empty(qkv.shape)


def _remember(ctx, inputs, output) -> None:
    ctx.save_for_backward(inputs[0], *output)
    ctx.scale = inputs[1]


def _gradients(ctx, grad: Tensor, _of_sums: Tensor | None) -> tuple[Tensor, None]:
    return _attend_backward(*ctx.saved_tensors, grad, ctx.scale), None


attend_joined.register_autograd(_gradients, setup_context=_remember)
