"""A look at a source between two steps of a recurrence, in Triton: one query a row of the batch.

Two kernels each way. Weights need all columns of a row's keys, so one program scores a row; values
are many times as wide, so programs share them, some columns each. Their parts of the gradient of
the weights are added up by whoever goes on with the scores. What rows of the batch have may lie
apart (their strides are given), so a source may be the first positions of one that still grows.
Gradients compute scores again, in float32.

A score of a query q and a key k is one of

    additive       Σ v tanh(q + k)
    tanh_product   Σ v tanh(q) k
    product        Σ q k
    cosine         Σ q k / ‖q‖, of keys that were divided by their norms
    sharp_cosine   softplus(Σ v q) times that
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
def _columns(x, a, A):
    """Some columns of a row of A, in float32; zeros outside."""
    return tl.load(x + a, mask=a < A, other=0.0).to(tl.float32)


@triton.jit
def _sharpness(x):
    """β = softplus(x) and β'/β, which goes to 1 where β is too small to be told from 0."""
    e = tl.exp(-tl.abs(x))
    beta = tl.maximum(x, 0.0) + tl.log(1.0 + e)
    slope = tl.where(x < 0.0, e, 1.0) / (1.0 + e)
    return beta, tl.where(beta > 0.0, slope / tl.maximum(beta, 1e-30), 1.0)


@triton.jit
def _weigh(
    query, keys, v, mask, weights, query_row, keys_row, mask_row, weights_row, S, A,
    SCORE: tl.constexpr, MASKED: tl.constexpr, POSITIONS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    b = tl.program_id(0).to(tl.int64)
    query += b * query_row
    keys += b * keys_row
    s = tl.arange(0, POSITIONS)
    scores = tl.zeros((POSITIONS,), tl.float32)
    squares, dot = 0.0, 0.0
    for begin in range(0, A, BLOCK):
        a = begin + tl.arange(0, BLOCK)
        q = _columns(query, a, A)
        k = _tile(keys, s, a, S, A)
        if SCORE == "additive":
            scores += tl.sum(_columns(v, a, A)[None, :] * tanh(q[None, :] + k), 1)
        elif SCORE == "tanh_product":
            scores += tl.sum((_columns(v, a, A) * tanh(q))[None, :] * k, 1)
        else:
            scores += tl.sum(q[None, :] * k, 1)
            squares += tl.sum(q * q)
            if SCORE == "sharp_cosine":
                dot += tl.sum(_columns(v, a, A) * q)
    if SCORE == "cosine" or SCORE == "sharp_cosine":
        scores /= tl.maximum(tl.sqrt(squares), 1e-12)
    if SCORE == "sharp_cosine":
        beta, _ratio = _sharpness(dot)
        scores *= beta
    seen = s < S
    if MASKED:
        seen = tl.load(mask + b * mask_row + s, mask=seen, other=0) != 0
    scores = tl.where(seen, scores, -float("inf"))
    top = tl.maximum(tl.max(scores, 0), -3.4e38)  # finite where nothing is seen
    shares = tl.where(seen, tl.exp(scores - top), 0.0)
    shares /= tl.maximum(tl.sum(shares, 0), 1e-38)
    tl.store(weights + b * weights_row + s, shares, mask=s < S)


@triton.jit
def _find(
    weights, values, context, weights_row, weights_step, values_row, context_row, S, Dv,
    POSITIONS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    b = tl.program_id(0).to(tl.int64)
    e = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    s = tl.arange(0, POSITIONS)
    shares = tl.load(weights + b * weights_row + s * weights_step, mask=s < S, other=0.0)
    found = tl.sum(shares[:, None] * _tile(values + b * values_row, s, e, S, Dv), 0)
    tl.store(context + b * context_row + e, found.to(context.dtype.element_ty), mask=e < Dv)


@triton.jit
def _find_backward(
    values, grad_gates, grad_context, grad_found, grad_weights,
    values_row, grad_gates_row, grad_context_row, grad_found_row, S, Dv, GATES, WIDTH,
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
        of_shares += tl.sum(of_found[None, :] * _tile(values + b * values_row, s, e, S, Dv), 1)
    row = b * tl.num_programs(1) + part
    tl.store(grad_weights + row * S + s, of_shares, mask=s < S)


@triton.jit
def _weigh_backward(
    query, keys, v, weights, grad_weights, grad_query, grad_keys, grad_v,
    query_row, keys_row, weights_row, grad_query_row, grad_keys_row, S, A, N_PARTS,
    SCORE: tl.constexpr, LEARNS_V: tl.constexpr, POSITIONS: tl.constexpr, PARTS: tl.constexpr,
    WHOLE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    b = tl.program_id(0).to(tl.int64)
    a = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    s = tl.arange(0, POSITIONS)
    shares = tl.load(weights + b * weights_row + s, mask=s < S, other=0.0)
    of_shares = tl.sum(
        _tile(grad_weights + b * N_PARTS * S, tl.arange(0, PARTS), s, N_PARTS, S), 0
    )  # fmt: skip
    of_scores = shares * (of_shares - tl.sum(shares * of_shares, 0))
    query += b * query_row
    q = _columns(query, a, A)
    k = _tile(keys + b * keys_row, s, a, S, A)
    if SCORE == "additive":
        factor = _columns(v, a, A)
        squashed = tanh(q[None, :] + k)
        of_k = of_scores[:, None] * factor[None, :] * (1.0 - squashed * squashed)
        of_q = tl.sum(of_k, 0)
        of_v = tl.sum(of_scores[:, None] * squashed, 0)
    elif SCORE == "tanh_product":
        factor = _columns(v, a, A)
        squashed = tanh(q)
        of_squashed = tl.sum(of_scores[:, None] * k, 0)
        of_k = of_scores[:, None] * (factor * squashed)[None, :]
        of_q = of_squashed * factor * (1.0 - squashed * squashed)
        of_v = of_squashed * squashed
    elif SCORE == "product":
        of_k = of_scores[:, None] * q[None, :]
        of_q = tl.sum(of_scores[:, None] * k, 0)
    else:
        all_columns = tl.arange(0, WHOLE)
        whole_query = _columns(query, all_columns, A)
        scale = 1.0 / tl.maximum(tl.sqrt(tl.sum(whole_query * whole_query)), 1e-12)
        # Σ of_scores · scores, for log share = score - log Σ, and of_scores add up to 0.
        total = tl.sum(of_scores * tl.log(tl.where(shares > 0.0, shares, 1.0)), 0)
        along = total * scale * scale * q
        if SCORE == "sharp_cosine":
            beta, ratio = _sharpness(tl.sum(_columns(v, all_columns, A) * whole_query))
            along -= total * ratio * _columns(v, a, A)
            of_v = total * ratio * q
            scale *= beta
        of_k = of_scores[:, None] * (scale * q)[None, :]
        of_q = scale * tl.sum(of_scores[:, None] * k, 0) - along
    if LEARNS_V:
        row = grad_v + b * A + a
        tl.store(row, tl.load(row, mask=a < A, other=0.0) + of_v, mask=a < A)
    out = grad_query + b * grad_query_row + a
    tl.store(out, of_q.to(out.dtype.element_ty), mask=a < A)
    here = (s < S)[:, None] & (a < A)[None, :]
    place = grad_keys + b * grad_keys_row + s[:, None] * A + a[None, :]
    tl.store(place, tl.load(place, mask=here, other=0.0) + of_k, mask=here)


def attend(
    query: Tensor,
    keys: Tensor,
    v: Tensor | None,
    values: Tensor,
    mask: Tensor | None,
    weights: Tensor,
    context: Tensor,
    *,
    score: str,
) -> None:
    """query (B, A), keys (B, S, A), v (A,), values (B, S, Dv), mask (B, S) -> ``weights`` (B, S),
    ``context`` (B, Dv).

    Where a score has no v, that is None; without a mask all is seen.
    """
    B, S, A = keys.shape
    hides = keys if mask is None else mask
    _weigh[(B,)](
        query, keys, keys if v is None else v, hides, weights,
        query.stride(0), keys.stride(0), hides.stride(0), weights.stride(0), S, A,
        SCORE=score, MASKED=mask is not None, POSITIONS=block_size(S), BLOCK=_width(S),
    )  # fmt: skip
    find(weights, values, context)


def find(weights: Tensor, values: Tensor, context: Tensor) -> None:
    """weights (B, S), values (B, S, Dv) -> ``context`` (B, Dv)."""
    B, S, Dv = values.shape
    _find[(B, triton.cdiv(Dv, _width(S)))](
        weights, values, context,
        *weights.stride(), values.stride(0), context.stride(0), S, Dv,
        POSITIONS=block_size(S), BLOCK=_width(S), **ONE_WARP,
    )  # fmt: skip


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
    """Write ``grad_query`` (B, A) and ``grad_found`` (B, Dv), all of the context's gradient; where
    gates add nothing, that may be ``grad_context`` itself.

    What comes to ``grad_keys`` (B, S, A) and ``grad_v`` (B, A) is added there, in float32.

    The first numbers of a context are added to the gates, the gradient of which (B, any number) is
    added here. Where there is no v, nothing is added to ``grad_v``.
    """
    (B, S, A), Dv = keys.shape, values.shape[-1]
    columns = _width(S)
    width = triton.cdiv(triton.cdiv(Dv, columns), PARTS) * columns
    n_parts = triton.cdiv(Dv, width)
    grad_weights = weights.new_empty(B, n_parts, S)
    sizes = {"POSITIONS": block_size(S), "BLOCK": columns}
    _find_backward[(B, n_parts)](
        values, grad_gates, grad_context, grad_found, grad_weights,
        values.stride(0), grad_gates.stride(0), grad_context.stride(0), grad_found.stride(0),
        S, Dv, grad_gates.shape[-1], width, **sizes,
    )  # fmt: skip
    sizes["BLOCK"] = _width(S, TILE // 4)
    _weigh_backward[(B, triton.cdiv(A, sizes["BLOCK"]))](
        query, keys, keys if v is None else v, weights, grad_weights, grad_query, grad_keys, grad_v,
        query.stride(0), keys.stride(0), weights.stride(0), grad_query.stride(0),
        grad_keys.stride(0), S, A, n_parts,
        SCORE=score, LEARNS_V=v is not None, PARTS=PARTS, WHOLE=block_size(A), **sizes, **ONE_WARP,
    )  # fmt: skip


def _width(n_positions: int, tile: int | None = None) -> int:
    return max(16, (tile or TILE) // block_size(n_positions))
