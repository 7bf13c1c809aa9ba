"""Attention over packed short texts, in Triton: forward, and backward in one pass.

Sentences have about twenty-four tokens; a kernel made for thousands spends its time on empty
tiles. Here a program takes one head of one group of whole texts, at most ``block`` tokens, and has
all it needs at once: no loop over keys, no second pass, no atomic additions.
"""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

LOG2_E = 1.0 / math.log(2.0)


@triton.jit
def _rows(pointer, begin, end, head, row_stride, head_stride, BLOCK: tl.constexpr, D: tl.constexpr):
    """Rows begin … end of one head -> (BLOCK, D), zeros beyond."""
    n, d = tl.arange(0, BLOCK), tl.arange(0, D)
    places = pointer + (begin + n)[:, None] * row_stride + head * head_stride + d[None, :]
    return tl.load(places, mask=(begin + n < end)[:, None], other=0.0)


@triton.jit
def _keep(
    pointer, x, begin, end, head, row_stride, head_stride, BLOCK: tl.constexpr, D: tl.constexpr
):
    """The inverse of ``_rows``."""
    n, d = tl.arange(0, BLOCK), tl.arange(0, D)
    places = pointer + (begin + n)[:, None] * row_stride + head * head_stride + d[None, :]
    tl.store(places, x.to(pointer.dtype.element_ty), mask=(begin + n < end)[:, None])


@triton.jit
def _visible(
    q_texts, k_texts, q_begin, q_end, k_begin, k_end, CAUSAL: tl.constexpr, BLOCK: tl.constexpr
):
    """(BLOCK, BLOCK): which keys of the group each query may see."""
    n = tl.arange(0, BLOCK)
    mine = tl.load(q_texts + q_begin + n, mask=q_begin + n < q_end, other=-1)
    theirs = tl.load(k_texts + k_begin + n, mask=k_begin + n < k_end, other=-2)
    seen = mine[:, None] == theirs[None, :]
    if CAUSAL:
        seen = seen & (k_begin + n[None, :] <= q_begin + n[:, None])
    return seen


@triton.jit
def _forward(
    q, k, v, q_texts, k_texts, spans, out, sums,
    q_row, q_head, k_row, k_head, v_row, v_head, o_row, o_head, s_row, scale,
    CAUSAL: tl.constexpr, BLOCK: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    span = spans + tl.program_id(0) * 4
    head = tl.program_id(1)
    q_begin, q_end = tl.load(span), tl.load(span + 1)
    k_begin, k_end = tl.load(span + 2), tl.load(span + 3)
    if q_begin < q_end:
        queries = _rows(q, q_begin, q_end, head, q_row, q_head, BLOCK, D)
        keys = _rows(k, k_begin, k_end, head, k_row, k_head, BLOCK, D)
        seen = _visible(q_texts, k_texts, q_begin, q_end, k_begin, k_end, CAUSAL, BLOCK)
        scores = tl.dot(queries, tl.trans(keys), input_precision="ieee") * scale
        scores = tl.where(seen, scores, -1.0e30)
        top = tl.max(scores, 1)
        weights = tl.where(seen, tl.exp2(scores - top[:, None]), 0.0)
        total = tl.sum(weights, 1)
        total = tl.where(total > 0, total, 1.0)
        values = _rows(v, k_begin, k_end, head, v_row, v_head, BLOCK, D)
        found = tl.dot(weights.to(values.dtype), values, input_precision="ieee") / total[:, None]
        _keep(out, found, q_begin, q_end, head, o_row, o_head, BLOCK, D)
        n = tl.arange(0, BLOCK)
        tl.store(sums + head * s_row + q_begin + n, top + tl.log2(total), mask=q_begin + n < q_end)


@triton.jit
def _backward(
    q, k, v, q_texts, k_texts, spans, out, sums, grad, grad_q, grad_k, grad_v,
    q_row, q_head, k_row, k_head, v_row, v_head, o_row, o_head, g_row, g_head, r_row, r_head,
    s_row, scale, natural,
    CAUSAL: tl.constexpr, BLOCK: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    span = spans + tl.program_id(0) * 4
    head = tl.program_id(1)
    q_begin, q_end = tl.load(span), tl.load(span + 1)
    k_begin, k_end = tl.load(span + 2), tl.load(span + 3)
    if q_begin < q_end:
        n = tl.arange(0, BLOCK)
        queries = _rows(q, q_begin, q_end, head, q_row, q_head, BLOCK, D)
        keys = _rows(k, k_begin, k_end, head, k_row, k_head, BLOCK, D)
        seen = _visible(q_texts, k_texts, q_begin, q_end, k_begin, k_end, CAUSAL, BLOCK)
        norm = tl.load(sums + head * s_row + q_begin + n, mask=q_begin + n < q_end, other=0.0)
        scores = tl.dot(queries, tl.trans(keys), input_precision="ieee") * scale
        weights = tl.where(seen, tl.exp2(scores - norm[:, None]), 0.0)
        wanted = _rows(grad, q_begin, q_end, head, g_row, g_head, BLOCK, D)
        found = _rows(out, q_begin, q_end, head, o_row, o_head, BLOCK, D)
        delta = tl.sum(wanted.to(tl.float32) * found.to(tl.float32), 1)
        of_values = tl.dot(tl.trans(weights.to(wanted.dtype)), wanted, input_precision="ieee")
        _keep(grad_v, of_values, k_begin, k_end, head, r_row, r_head, BLOCK, D)
        values = _rows(v, k_begin, k_end, head, v_row, v_head, BLOCK, D)
        of_weights = tl.dot(wanted, tl.trans(values), input_precision="ieee")
        of_scores = (weights * (of_weights - delta[:, None]) * natural).to(queries.dtype)
        of_queries = tl.dot(of_scores, keys, input_precision="ieee")
        _keep(grad_q, of_queries, q_begin, q_end, head, r_row, r_head, BLOCK, D)
        of_keys = tl.dot(tl.trans(of_scores), queries, input_precision="ieee")
        _keep(grad_k, of_keys, k_begin, k_end, head, r_row, r_head, BLOCK, D)


@torch.library.custom_op("regard::attend_packed", mutates_args=())
def attend_packed(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    q_texts: Tensor,
    k_texts: Tensor,
    spans: Tensor,
    scale: float,
    causal: bool,
    block: int,
) -> tuple[Tensor, Tensor]:
    """q (T, H, D), k and v (S, H, D), of any strides but the last -> values (T, H, D), sums (H, T).

    The sums are the base-2 logarithms of the softmax's denominators, which backward needs. Tokens
    of no text get zeros.
    """
    T, H, D = q.shape
    out = torch.zeros(T, H, D, dtype=q.dtype, device=q.device)
    sums = torch.empty(H, T, dtype=torch.float32, device=q.device)
    _forward[(spans.shape[0], H)](
        q, k, v, q_texts, k_texts, spans, out, sums,
        *_strides(q), *_strides(k), *_strides(v), *_strides(out), sums.stride(0),
        scale * LOG2_E, CAUSAL=causal, BLOCK=block, D=D, num_warps=_warps(block),
    )  # fmt: skip
    return out, sums


@torch.library.custom_op("regard::attend_packed_backward", mutates_args=())
def _attend_backward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    q_texts: Tensor,
    k_texts: Tensor,
    spans: Tensor,
    out: Tensor,
    sums: Tensor,
    grad: Tensor,
    scale: float,
    causal: bool,
    block: int,
) -> tuple[Tensor, Tensor, Tensor]:
    grad_q, grad_k, grad_v = (
        torch.zeros(x.shape, dtype=x.dtype, device=x.device) for x in (q, k, v)
    )
    _backward[(spans.shape[0], q.shape[1])](
        q, k, v, q_texts, k_texts, spans, out, sums, grad, grad_q, grad_k, grad_v,
        *_strides(q), *_strides(k), *_strides(v), *_strides(out), *_strides(grad),
        *_strides(grad_q), sums.stride(0), scale * LOG2_E, scale,
        CAUSAL=causal, BLOCK=block, D=q.shape[2], num_warps=_warps(block),
    )  # fmt: skip
    return grad_q, grad_k, grad_v


def _strides(x: Tensor) -> tuple[int, int]:
    return x.stride(0), x.stride(1)


def _warps(block: int) -> int:
    return 4 if block <= 64 else 8


@attend_packed.register_fake
def _(q: Tensor, *_rest: object) -> tuple[Tensor, Tensor]:
    T, H, D = q.shape
    return q.new_empty(T, H, D), q.new_empty(H, T, dtype=torch.float32)


@_attend_backward.register_fake
def _(q: Tensor, k: Tensor, v: Tensor, *_rest: object) -> tuple[Tensor, Tensor, Tensor]:
    return q.new_empty(q.shape), k.new_empty(k.shape), v.new_empty(v.shape)


def _remember(ctx, inputs, output) -> None:
    *tensors, scale, causal, block = inputs
    ctx.save_for_backward(*tensors, *output)
    ctx.how = (scale, causal, block)


def _gradients(ctx, grad: Tensor, _of_sums: Tensor | None) -> tuple[Tensor | None, ...]:
    grads = _attend_backward(*ctx.saved_tensors, _unit_last(grad), *ctx.how)
    return (*grads, None, None, None, None, None, None)


def _unit_last(x: Tensor) -> Tensor:
    return x if x.stride(-1) == 1 else x.contiguous()


attend_packed.register_autograd(_gradients, setup_context=_remember)
