"""A look at a source between two steps of a recurrence, in Triton: one query a row of the batch.

Two kernels each way. Weights need all columns of a row's keys, so one program scores a row; values
are many times as wide, so programs share them, some columns each. Their parts of the gradient of
the weights are added up by whoever goes on with the scores. Queries and contexts of a step may lie
apart (their strides are given). Gradients compute scores again, in float32.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from regard.kernels.gpu.recurrence import block_size, tanh

TILE = 4096
"""Numbers of keys or values that a program has before it at a time."""
ONE_WARP = {"num_warps": 1}
"""How programs are launched that do one small thing each: many narrow ones hide each other's waits,
wide ones wait for their own threads (H200: 4 and 8 us in place of 14 and 15)."""
PARTS = 16
"""Programs that share the values of a row on the way back, at most; a power of two."""


@triton.jit
def _tile(x, s, a, S, A):
    """x (S, A) at some positions and columns, in float32; zeros outside."""
    here = (s < S)[:, None] & (a < A)[None, :]
    return tl.load(x + s[:, None] * A + a[None, :], mask=here, other=0.0).to(tl.float32)


@triton.jit
def _weigh(
    query, keys, v, mask, weights, query_row, weights_row, S, A,
    SCORE: tl.constexpr, POSITIONS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    b = tl.program_id(0).to(tl.int64)
    query += b * query_row
    keys += b * S * A
    s = tl.arange(0, POSITIONS)
    scores = tl.zeros((POSITIONS,), tl.float32)
    for begin in range(0, A, BLOCK):
        a = begin + tl.arange(0, BLOCK)
        q = tl.load(query + a, mask=a < A, other=0.0).to(tl.float32)[None, :]
        k = _tile(keys, s, a, S, A)
        if SCORE == "product":
            scores += tl.sum(q * k, 1)
        else:
            factor = tl.load(v + a, mask=a < A, other=0.0).to(tl.float32)[None, :]
            if SCORE == "additive":
                scores += tl.sum(factor * tanh(q + k), 1)
            else:
                scores += tl.sum(factor * tanh(q) * k, 1)
    seen = tl.load(mask + b * S + s, mask=s < S, other=0) != 0
    scores = tl.where(seen, scores, -float("inf"))
    top = tl.maximum(tl.max(scores, 0), -3.4e38)  # finite where nothing is seen
    shares = tl.where(seen, tl.exp(scores - top), 0.0)
    shares /= tl.maximum(tl.sum(shares, 0), 1e-38)
    tl.store(weights + b * weights_row + s, shares, mask=s < S)


@triton.jit
def _find(
    weights, values, context, weights_row, context_row, S, Dv,
    POSITIONS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    b = tl.program_id(0).to(tl.int64)
    e = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    s = tl.arange(0, POSITIONS)
    shares = tl.load(weights + b * weights_row + s, mask=s < S, other=0.0)
    found = tl.sum(shares[:, None] * _tile(values + b * S * Dv, s, e, S, Dv), 0)
    tl.store(context + b * context_row + e, found.to(context.dtype.element_ty), mask=e < Dv)


@triton.jit
def _find_backward(
    values, grad_gates, grad_context, grad_found, grad_weights,
    grad_gates_row, grad_context_row, grad_found_row, S, Dv, GATES, WIDTH,
    POSITIONS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    b = tl.program_id(0).to(tl.int64)
    part = tl.program_id(1)
    s = tl.arange(0, POSITIONS)
    of_shares = tl.zeros((POSITIONS,), tl.float32)
    for begin in range(part * WIDTH, part * WIDTH + WIDTH, BLOCK):
        e = begin + tl.arange(0, BLOCK)
        of_found = tl.load(
            grad_context + b * grad_context_row + e, mask=e < Dv, other=0.0
        ).to(tl.float32)  # fmt: skip
        of_found += tl.load(
            grad_gates + b * grad_gates_row + e, mask=e < GATES, other=0.0
        ).to(tl.float32)  # fmt: skip
        out = grad_found + b * grad_found_row + e
        tl.store(out, of_found.to(out.dtype.element_ty), mask=e < Dv)
        of_shares += tl.sum(of_found[None, :] * _tile(values + b * S * Dv, s, e, S, Dv), 1)
    row = b * tl.num_programs(1) + part
    tl.store(grad_weights + row * S + s, of_shares, mask=s < S)


@triton.jit
def _weigh_backward(
    query, keys, v, weights, grad_weights, grad_query, grad_keys, grad_v,
    query_row, weights_row, grad_query_row, S, A, N_PARTS,
    SCORE: tl.constexpr, POSITIONS: tl.constexpr, PARTS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    b = tl.program_id(0).to(tl.int64)
    a = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    s = tl.arange(0, POSITIONS)
    shares = tl.load(weights + b * weights_row + s, mask=s < S, other=0.0)
    of_shares = tl.sum(
        _tile(grad_weights + b * N_PARTS * S, tl.arange(0, PARTS), s, N_PARTS, S), 0
    )  # fmt: skip
    of_scores = shares * (of_shares - tl.sum(shares * of_shares, 0))
    q = tl.load(query + b * query_row + a, mask=a < A, other=0.0).to(tl.float32)[None, :]
    k = _tile(keys + b * S * A, s, a, S, A)
    if SCORE == "product":
        of_k = of_scores[:, None] * q
        of_q = tl.sum(of_scores[:, None] * k, 0)
    else:
        factor = tl.load(v + a, mask=a < A, other=0.0).to(tl.float32)[None, :]
        if SCORE == "additive":
            squashed = tanh(q + k)
            of_k = of_scores[:, None] * factor * (1.0 - squashed * squashed)
            of_q = tl.sum(of_k, 0)
            of_v = tl.sum(of_scores[:, None] * squashed, 0)
        else:
            squashed = tanh(q)
            of_k = of_scores[:, None] * factor * squashed
            of_v = tl.sum(of_scores[:, None] * squashed * k, 0)
            of_q = tl.sum(of_scores[:, None] * k * (factor * (1.0 - squashed * squashed)), 0)
        row = grad_v + b * A + a
        tl.store(row, tl.load(row, mask=a < A, other=0.0) + of_v, mask=a < A)
    out = grad_query + b * grad_query_row + a
    tl.store(out, of_q.to(out.dtype.element_ty), mask=a < A)
    here = (s < S)[:, None] & (a < A)[None, :]
    place = grad_keys + b * S * A + s[:, None] * A + a[None, :]
    tl.store(place, tl.load(place, mask=here, other=0.0) + of_k, mask=here)


def attend(
    query: Tensor,
    keys: Tensor,
    v: Tensor | None,
    values: Tensor,
    mask: Tensor,
    weights: Tensor,
    context: Tensor,
    *,
    score: str,
) -> None:
    """query (B, A), keys (B, S, A), v (A,), values (B, S, Dv), mask (B, S) -> ``weights`` (B, S),
    ``context`` (B, Dv).

    The score is Σ v tanh(q + k), ``additive``; Σ v tanh(q) k, ``tanh_product``; or Σ q k,
    ``product``, which has no v.
    """
    (B, S, A), Dv = keys.shape, values.shape[-1]
    sizes = {"POSITIONS": block_size(S), "BLOCK": _columns(S)}
    _weigh[(B,)](
        query, keys, keys if v is None else v, mask, weights,
        query.stride(0), weights.stride(0), S, A, SCORE=score, **sizes,
    )  # fmt: skip
    _find[(B, triton.cdiv(Dv, _columns(S)))](
        weights, values, context, weights.stride(0), context.stride(0), S, Dv, **sizes, **ONE_WARP
    )


def attend_backward(
    query: Tensor,
    keys: Tensor,
    v: Tensor | None,
    values: Tensor,
    weights: Tensor,
    grad_gates: Tensor,
    grad_context: Tensor,
    grad_query: Tensor,
    grad_keys: Tensor,
    grad_v: Tensor,
    grad_found: Tensor,
    *,
    score: str,
) -> None:
    """Write ``grad_query`` (B, A) and ``grad_found`` (B, Dv), all of the context's gradient.

    What comes to ``grad_keys`` (B, S, A) and ``grad_v`` (B, A) is added there, in float32.

    The first numbers of a context are added to the gates, the gradient of which (B, any number) is
    added here. Where there is no v, nothing is added to ``grad_v``.
    """
    (B, S, A), Dv = keys.shape, values.shape[-1]
    columns = _columns(S)
    width = triton.cdiv(triton.cdiv(Dv, columns), PARTS) * columns
    n_parts = triton.cdiv(Dv, width)
    grad_weights = weights.new_empty(B, n_parts, S)
    sizes = {"POSITIONS": block_size(S), "BLOCK": columns}
    _find_backward[(B, n_parts)](
        values, grad_gates, grad_context, grad_found, grad_weights,
        grad_gates.stride(0), grad_context.stride(0), grad_found.stride(0),
        S, Dv, grad_gates.shape[-1], width, **sizes,
    )  # fmt: skip
    sizes["BLOCK"] = _columns(S, TILE // 4)
    _weigh_backward[(B, triton.cdiv(A, sizes["BLOCK"]))](
        query, keys, keys if v is None else v, weights, grad_weights, grad_query, grad_keys, grad_v,
        query.stride(0), weights.stride(0), grad_query.stride(0), S, A, n_parts,
        SCORE=score, PARTS=PARTS, **sizes, **ONE_WARP,
    )  # fmt: skip


def _columns(n_positions: int, tile: int | None = None) -> int:
    return max(16, (tile or TILE) // block_size(n_positions))
