"""What is done to each row by itself, in Triton: few kernels, for at one row each one counts.

Reading the token, adding and normalising, the best tokens, and noting them down.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from regard.kernels.gpu import early

CHUNK = 4096
"""Logits that a program handles: so that one row alone keeps several processors busy."""
ROWS = 128
"""Rows that are noted by one program."""


@triton.jit
def wait(EARLY: tl.constexpr):
    """Until the kernel before this one has ended; then the next may begin, see ``early``."""
    if EARLY:
        tl.extra.cuda.gdc_wait()
        tl.extra.cuda.gdc_launch_dependents()


@triton.jit
def keep_best(
    x, token, first, at, n_hidden, tops, ids, highs, sums, N: tl.constexpr, BLOCK: tl.constexpr
):
    """Of logits x (BLOCK,) of tokens ``first`` on: the N best, the highest and the sum of all."""
    high = tl.max(x, 0)
    tl.store(highs + at, high)
    tl.store(sums + at, tl.sum(tl.exp(x - high), 0))
    x = tl.where(token < n_hidden, -float("inf"), x)
    n = tl.arange(0, BLOCK)
    for i in tl.static_range(N):
        best = tl.argmax(x, 0)
        tl.store(tops + at * N + i, tl.max(x, 0))
        tl.store(ids + at * N + i, first + best)
        x = tl.where(n == best, -float("inf"), x)


@triton.jit
def _embed(
    ids, positions, table, tokens, codes, out, n_room, n_width, scale,
    BLOCK: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    wait(EARLY)
    row = tl.program_id(0).to(tl.int64)
    position = tl.load(positions + row)
    tl.store(table + row * n_room + position, row.to(tl.int32))
    d = tl.arange(0, BLOCK)
    here = d < n_width
    token = tl.load(ids + row).to(tl.int64)
    x = tl.load(tokens + token * n_width + d, mask=here, other=0.0).to(tl.float32) * scale
    x += tl.load(codes + position * n_width + d, mask=here, other=0.0).to(tl.float32)
    tl.store(out + row * n_width + d, x.to(out.dtype.element_ty), mask=here)


@triton.jit
def _add_norm(
    x, added, weight, bias, total, normed, n_width, eps,
    KEEP: tl.constexpr, BLOCK: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    wait(EARLY)
    row = tl.program_id(0).to(tl.int64)
    d = tl.arange(0, BLOCK)
    here = d < n_width
    at = row * n_width + d
    y = tl.load(x + at, mask=here, other=0.0).to(tl.float32)
    y += tl.load(added + at, mask=here, other=0.0).to(tl.float32)
    if KEEP:
        tl.store(total + at, y.to(total.dtype.element_ty), mask=here)
    mean = tl.sum(y, 0) / n_width
    y = tl.where(here, y - mean, 0.0)
    y = y / tl.sqrt(tl.sum(y * y, 0) / n_width + eps)
    y = y * tl.load(weight + d, mask=here, other=0.0).to(tl.float32)
    y += tl.load(bias + d, mask=here, other=0.0).to(tl.float32)
    tl.store(normed + at, y.to(normed.dtype.element_ty), mask=here)


@triton.jit
def _chunks(
    logits, tops, ids, highs, sums, n_vocab, n_hidden,
    N: tl.constexpr, BLOCK: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    wait(EARLY)
    row = tl.program_id(0).to(tl.int64)
    chunk = tl.program_id(1)
    at = row * tl.num_programs(1) + chunk
    token = chunk * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(logits + row * n_vocab + token, mask=token < n_vocab, other=-float("inf"))
    x = x.to(tl.float32)
    keep_best(x, token, chunk * BLOCK, at, n_hidden, tops, ids, highs, sums, N, BLOCK)


@triton.jit
def _merge(
    tops, ids, highs, sums, log_probs, chosen, n_chunks,
    N: tl.constexpr, PARTS: tl.constexpr, MANY: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    wait(EARLY)
    row = tl.program_id(0).to(tl.int64)
    part = tl.arange(0, PARTS)
    there = part < n_chunks
    high = tl.load(highs + row * n_chunks + part, mask=there, other=-float("inf"))
    total = tl.load(sums + row * n_chunks + part, mask=there, other=0.0)
    highest = tl.max(high, 0)
    norm = highest + tl.log(tl.sum(total * tl.exp(high - highest), 0))
    n = tl.arange(0, MANY)
    base = row * n_chunks * N
    x = tl.load(tops + base + n, mask=n < n_chunks * N, other=-float("inf"))
    for i in tl.static_range(N):
        best = tl.argmax(x, 0)
        tl.store(log_probs + row * N + i, tl.max(x, 0) - norm)
        tl.store(chosen + row * N + i, tl.load(ids + base + best).to(tl.int64))
        x = tl.where(n == best, -float("inf"), x)


@triton.jit
def _note(
    best, log_probs, ids, positions, owners, finished, limits, written, totals,
    n_rows, n_room, end, BLOCK: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    wait(EARLY)
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    here = row < n_rows
    going = here & (tl.load(finished + row, mask=here, other=1) == 0)
    position = tl.load(positions + row, mask=here, other=0)
    # Who has finished goes along: at an older position it would write over the past of others.
    tl.store(positions + row, tl.minimum(position + 1, n_room - 1), mask=here)
    owner = tl.load(owners + row, mask=going, other=0).to(tl.int64)
    chosen = tl.load(best + row, mask=going, other=0)
    total = tl.load(totals + owner, mask=going, other=0.0)
    total += tl.load(log_probs + row, mask=going, other=0.0)
    limit = tl.load(limits + owner, mask=going, other=0)
    tl.store(totals + owner, total, mask=going)
    tl.store(written + owner * n_room + position, chosen, mask=going)
    tl.store(ids + row, chosen, mask=going)
    ends = (chosen == end) | (position + 1 >= limit)
    tl.store(finished + row, ends.to(tl.int8), mask=going)


def embed(
    ids: Tensor, positions: Tensor, table: Tensor, tokens: Tensor, codes: Tensor, scale: float
) -> Tensor:
    """The kernel behind ``kernels.steps.embed``."""
    R, D = ids.shape[0], tokens.shape[1]
    out = torch.empty(R, D, dtype=tokens.dtype, device=ids.device)
    _embed[(R,)](
        ids, positions, table, tokens, codes, out, table.shape[1], D, scale,
        BLOCK=triton.next_power_of_2(D), num_warps=4, **early(ids.device),
    )  # fmt: skip
    return out


def add_norm(
    x: Tensor, added: Tensor, weight: Tensor, bias: Tensor, eps: float, keep: bool
) -> tuple[Tensor, Tensor]:
    """The kernel behind ``kernels.steps.add_norm``."""
    R, D = x.shape
    normed = torch.empty_like(x)
    total = torch.empty_like(x) if keep else normed
    _add_norm[(R,)](
        x, added, weight, bias, total, normed, D, eps,
        KEEP=keep, BLOCK=triton.next_power_of_2(D), num_warps=4, **early(x.device),
    )  # fmt: skip
    return total, normed


def best_tokens(logits: Tensor, n: int, n_hidden: int) -> tuple[Tensor, Tensor]:
    """The kernel behind ``kernels.steps.best_tokens``."""
    R, V = logits.shape
    block = min(CHUNK, triton.next_power_of_2(V))
    n_chunks = triton.cdiv(V, block)
    found = room_for_best(R, n_chunks, n, logits.device)
    _chunks[(R, n_chunks)](
        logits, *found, V, n_hidden, N=n, BLOCK=block, num_warps=8, **early(logits.device)
    )
    return merged(*found)


def room_for_best(R: int, C: int, n: int, device: torch.device) -> tuple[Tensor, ...]:
    """What ``merged`` takes of C chunks, to be written by ``keep_best``."""
    tops = torch.empty(R, C, n, dtype=torch.float32, device=device)
    ids = torch.empty(R, C, n, dtype=torch.int32, device=device)
    highs, sums = torch.empty(2, R, C, dtype=torch.float32, device=device)
    return tops, ids, highs, sums


def merged(tops: Tensor, ids: Tensor, highs: Tensor, sums: Tensor) -> tuple[Tensor, Tensor]:
    """What chunks of the vocabulary found -> log-probabilities and ids (R, n), best first.

    tops and ids (R, C, n) are the best of each chunk; highs and sums (R, C) its greatest logit and
    the sum of exp(logit - that).
    """
    R, C, n = tops.shape
    log_probs = torch.empty(R, n, dtype=torch.float32, device=tops.device)
    chosen = torch.empty(R, n, dtype=torch.int64, device=tops.device)
    many = triton.next_power_of_2(C * n)
    _merge[(R,)](
        tops, ids, highs, sums, log_probs, chosen, C, N=n,
        PARTS=triton.next_power_of_2(C), MANY=many, num_warps=max(1, min(8, many // 256)),
        **early(tops.device),
    )  # fmt: skip
    return log_probs, chosen


def note(
    best: Tensor,
    log_probs: Tensor,
    ids: Tensor,
    positions: Tensor,
    owners: Tensor,
    finished: Tensor,
    limits: Tensor,
    written: Tensor,
    totals: Tensor,
    end: int,
) -> None:
    """The kernel behind ``kernels.steps.note``."""
    R = best.shape[0]
    _note[(triton.cdiv(R, ROWS),)](
        best, log_probs, ids, positions, owners, finished, limits, written, totals,
        R, written.shape[1], end, BLOCK=ROWS, num_warps=4, **early(best.device),
    )  # fmt: skip
