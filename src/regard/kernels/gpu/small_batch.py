"""The linear layers of a step for few rows, in Triton: reading the weights is all there is to do.

Libraries make matrix units ready for a product that has no second dimension. Here a program
multiplies some rows of the weights with each of the few inputs, and starts at once. What comes
before and after, normalising and adding, costs next to nothing inside and a launch outside; so
every program normalises for itself.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from regard.kernels.gpu import early
from regard.kernels.gpu.step_rows import keep_best, merged, room_for_best, wait

BLOCK = 4
"""Outputs of one program: so many programs that a narrow layer keeps the chip busy."""
TOKENS = 32
"""Tokens of the vocabulary that one program compares with."""
MANY, MANY_AT_ONCE = 16384, 32
"""A layer of so many outputs has programs enough: each does more of them."""
Norm = tuple[Tensor, Tensor | None, float]
NONE = tl.constexpr(0)
LAYER = tl.constexpr(1)
RMS = tl.constexpr(2)
"""Kinds of norms."""


@triton.jit
def _entering(z, weight, bias, k, n_width, eps, NORM: tl.constexpr):
    """A row z (WIDTH,), perhaps normalised, in float32."""
    here = k < n_width
    y = tl.load(z + k, mask=here, other=0.0).to(tl.float32)
    if NORM == LAYER:
        mean = tl.sum(y, 0) / n_width
        y = tl.where(here, y - mean, 0.0)
    if NORM != NONE:
        y = y / tl.sqrt(tl.sum(y * y, 0) / n_width + eps)
        y = y * tl.load(weight + k, mask=here, other=0.0).to(tl.float32)
    if NORM == LAYER:
        y += tl.load(bias + k, mask=here, other=0.0).to(tl.float32)
    return y


@triton.jit
def _done(x, THEN: tl.constexpr):
    """What comes after the product."""
    if THEN == "relu":
        x = tl.maximum(x, 0.0)
    if THEN == "gelu":
        x = 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))
    if THEN == "gelu_tanh":
        twice = 1.5957691216057308 * (x + 0.044715 * x * x * x)
        x = x * tl.sigmoid(tl.maximum(twice, -80.0))  # beyond that, exp may overflow
    if THEN == "silu" or THEN == "swiglu":
        x = x * tl.sigmoid(x)
    return x


@triton.jit
def _product(part, y, bias, n, there, BIAS: tl.constexpr):
    """Some rows of the weights times y, in float32."""
    found = tl.sum(part * y[None, :], 1)
    if BIAS:
        found += tl.load(bias + n, mask=there, other=0.0).to(tl.float32)
    return found


@triton.jit
def _enter(
    z, norm_weight, norm_bias, weight, bias, out, n_in, n_out, eps,
    ROWS: tl.constexpr, NORM: tl.constexpr, BIAS: tl.constexpr, THEN: tl.constexpr,
    BLOCK: tl.constexpr, WIDTH: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    n = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    k = tl.arange(0, WIDTH)
    there = n < n_out
    real = there[:, None] & (k < n_in)[None, :]
    places = weight + n[:, None] * n_in + k[None, :]
    part = tl.load(places, mask=real, other=0.0).to(tl.float32)
    beside = part
    if THEN == "swiglu":
        beside = tl.load(places + n_out * n_in, mask=real, other=0.0).to(tl.float32)
    wait(EARLY)
    for row in tl.static_range(ROWS):
        y = _entering(z + row * n_in, norm_weight, norm_bias, k, n_in, eps, NORM)
        found = _done(_product(part, y, bias, n, there, BIAS), THEN)
        if THEN == "swiglu":
            found *= _product(beside, y, bias, n + n_out, there, BIAS)
        tl.store(out + row * n_out + n, found.to(out.dtype.element_ty), mask=there)


@triton.jit
def _leave(
    x, weight, bias, z, norm_weight, norm_bias, out, n_in, n_out, eps,
    ROWS: tl.constexpr, NORM: tl.constexpr, BIAS: tl.constexpr,
    BLOCK: tl.constexpr, WIDTH: tl.constexpr, STREAM: tl.constexpr,
    EARLY: tl.constexpr,
):  # fmt: skip
    n = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    k = tl.arange(0, WIDTH)
    d = tl.arange(0, STREAM)
    there, here = n < n_out, d < n_out
    places = weight + n[:, None] * n_in + k[None, :]
    part = tl.load(places, mask=there[:, None] & (k < n_in)[None, :], other=0.0).to(tl.float32)
    wait(EARLY)
    for row in tl.static_range(ROWS):
        asked = tl.load(x + row * n_in + k, mask=k < n_in, other=0.0).to(tl.float32)
        found = _product(part, asked, bias, n, there, BIAS)
        stream = tl.load(z + row * n_out + n, mask=there, other=0.0).to(tl.float32)
        if NORM:
            whole = tl.load(z + row * n_out + d, mask=here, other=0.0).to(tl.float32)
            mean = tl.sum(whole, 0) / n_out
            whole = tl.where(here, whole - mean, 0.0)
            stream = (stream - mean) / tl.sqrt(tl.sum(whole * whole, 0) / n_out + eps)
            stream = stream * tl.load(norm_weight + n, mask=there, other=0.0).to(tl.float32)
            stream += tl.load(norm_bias + n, mask=there, other=0.0).to(tl.float32)
        tl.store(out + row * n_out + n, found + stream, mask=there)


@triton.jit
def _vocabulary(
    z, norm_weight, norm_bias, tokens, tops, ids, highs, sums, n_in, n_vocab, n_hidden, eps,
    ROWS: tl.constexpr, NORM: tl.constexpr, N: tl.constexpr,
    BLOCK: tl.constexpr, WIDTH: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    chunk = tl.program_id(0)
    n = (chunk * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)
    k = tl.arange(0, WIDTH)
    places = tokens + n[:, None] * n_in + k[None, :]
    real = (n < n_vocab)[:, None] & (k < n_in)[None, :]
    part = tl.load(places, mask=real, other=0.0).to(tl.float32)
    wait(EARLY)
    for row in tl.static_range(ROWS):
        y = _entering(z + row * n_in, norm_weight, norm_bias, k, n_in, eps, NORM)
        x = tl.where(n < n_vocab, tl.sum(part * y[None, :], 1), -float("inf"))
        at = row * tl.num_programs(0) + chunk
        keep_best(x, n, chunk * BLOCK, at, n_hidden, tops, ids, highs, sums, N, BLOCK)


def enter(
    z: Tensor,
    norm: Norm | None,
    weight: Tensor,
    bias: Tensor | None,
    *,
    then: str = "none",
    out: Tensor | None = None,
) -> Tensor:
    """The kernel behind ``kernels.small_batch.enter``."""
    (R, K), N = z.shape, weight.shape[0]
    if then == "swiglu":
        N //= 2
    if out is None:
        out = torch.empty(R, N, dtype=weight.dtype, device=z.device)
    w, b, eps = norm or (None, None, 0.0)
    block, warps = (BLOCK, 4) if N < MANY else (MANY_AT_ONCE, 8)
    _enter[(triton.cdiv(N, block),)](
        z, w, b, weight, bias, out, K, N, eps,
        ROWS=R, NORM=_kind(norm), BIAS=bias is not None, THEN=then, BLOCK=block,
        WIDTH=triton.next_power_of_2(K), num_warps=warps, **early(z.device),
    )  # fmt: skip
    return out


def _kind(norm: Norm | None) -> int:
    if norm is None:
        return int(NONE.value)
    return int(RMS.value if norm[1] is None else LAYER.value)


def leave(x: Tensor, weight: Tensor, bias: Tensor | None, z: Tensor, norm: Norm | None) -> Tensor:
    """The kernel behind ``kernels.small_batch.leave``; a norm must be a LayerNorm."""
    assert norm is None or norm[1] is not None
    (R, K), N = x.shape, weight.shape[0]
    out = torch.empty(R, N, dtype=torch.float32, device=z.device)
    w, b, eps = norm or (None, None, 0.0)
    _leave[(triton.cdiv(N, BLOCK),)](
        x, weight, bias, z, w, b, out, K, N, eps,
        ROWS=R, NORM=norm is not None, BIAS=bias is not None, BLOCK=BLOCK,
        WIDTH=triton.next_power_of_2(K), STREAM=triton.next_power_of_2(N),
        num_warps=4, **early(z.device),
    )  # fmt: skip
    return out


def best_tokens(
    z: Tensor, norm: Norm, tokens: Tensor, n: int, n_hidden: int
) -> tuple[Tensor, Tensor]:
    """The kernel behind ``kernels.small_batch.best_tokens``."""
    (R, K), V = z.shape, tokens.shape[0]
    n_chunks = triton.cdiv(V, TOKENS)
    found = room_for_best(R, n_chunks, n, z.device)
    w, b, eps = norm
    _vocabulary[(n_chunks,)](
        z, w, b, tokens, *found, K, V, n_hidden, eps,
        ROWS=R, NORM=_kind(norm), N=n, BLOCK=TOKENS, WIDTH=triton.next_power_of_2(K),
        num_warps=8, **early(z.device),
    )  # fmt: skip
    return merged(*found)
