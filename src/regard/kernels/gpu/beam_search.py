"""What a step of a beam search does after the model, in Triton: one program a sentence, one kernel.

Sentences have K open and M finished hypotheses; a row is an open one. A program looks at *slots*:
the M finished hypotheses, then the 2K best continuations of the open ones, best first. It picks
from them the M that are finished now and the K that are open, and copies their tokens. Hypotheses
change places where they lie, so of each stretch of positions all is read before any is written.
"""

from __future__ import annotations

from typing import NamedTuple

import triton
import triton.language as tl
from torch import Tensor

TILE = 256
"""Tokens of all hypotheses that a program copies at a time."""


class Known(NamedTuple):
    """What a search knows of B sentences."""

    n_written: Tensor
    """(B,) int64: tokens of the open hypotheses, begin token not counted."""
    open_ids: Tensor
    """(B, K, T) int64, begin token first, all end tokens after what is written."""
    open_log_prob: Tensor
    """(B, K) float32"""
    finished_ids: Tensor
    """(B, M, T) int64"""
    finished_log_prob: Tensor
    """(B, M) float32"""
    finished_score: Tensor
    """(B, M) float32"""


@triton.jit
def _greatest(x, first, N: tl.constexpr, SLOTS: tl.constexpr, MANY: tl.constexpr):
    """Where the N greatest of x (MANY,) lie, of equals the first -> slots ``first`` on (SLOTS,)."""
    # As in a sort, what is not a number comes first: it must not go unseen.
    x = tl.where(x == x, tl.maximum(x, -3.4e38), float("inf"))
    at = tl.arange(0, MANY)
    slot = tl.arange(0, SLOTS)
    found = slot * 0
    for i in tl.static_range(N):
        best = tl.argmax(x, 0)
        found = tl.where(slot == first + i, best, found)
        x = tl.where(at == best, -float("inf"), x)
    return found


@triton.jit
def _picked(x, here):
    """Of x (N,) that at the one place which is true in each row of here (M, N) -> (M,)."""
    return tl.sum(tl.where(here, x[None, :], 0), 1)


@triton.jit
def _continuations(
    log_probs, tokens, open_log_prob, b,
    K: tl.constexpr, EACH: tl.constexpr, M: tl.constexpr,
    SLOTS: tl.constexpr, MANY: tl.constexpr,
):  # fmt: skip
    """The 2K best, in slots M on -> their parent, token and log-probability (SLOTS,)."""
    n = tl.arange(0, MANY)
    there = n < K * EACH
    base = b * (K * EACH)
    more = tl.load(log_probs + base + n, mask=there, other=-float("inf"))
    total = tl.load(open_log_prob + b * K + n // EACH, mask=there, other=-float("inf")) + more
    place = _greatest(total, M, 2 * K, SLOTS, MANY)
    parent = place // EACH
    total = tl.load(open_log_prob + b * K + parent) + tl.load(log_probs + base + place)
    return parent, tl.load(tokens + base + place), total


@triton.jit
def _open(
    parent, token, log_prob, END: tl.constexpr,
    K: tl.constexpr, M: tl.constexpr, K2: tl.constexpr, SLOTS: tl.constexpr,
):  # fmt: skip
    """The K best that do not end, of which there are K at least: the same of them (K2,)."""
    slot, k = tl.arange(0, SLOTS), tl.arange(0, K2)
    going = (slot >= M) & (slot < M + 2 * K) & (token != END)
    rank = tl.cumsum(going.to(tl.int32), 0) - 1
    here = going[None, :] & (rank[None, :] == k[:, None])
    return _picked(parent, here), _picked(token, here), _picked(log_prob, here)


@triton.jit
def _finished(
    finished_score, finished_log_prob, token, log_prob, penalty, b, END: tl.constexpr,
    K: tl.constexpr, M: tl.constexpr, M2: tl.constexpr, SLOTS: tl.constexpr,
):  # fmt: skip
    """The M best, also of the first K that end -> their slot, score and log-probability (M2,)."""
    slot = tl.arange(0, SLOTS)
    was = slot < M
    old_score = tl.load(finished_score + b * M + slot, mask=was, other=-float("inf"))
    old_log_prob = tl.load(finished_log_prob + b * M + slot, mask=was, other=-float("inf"))
    ends = (slot >= M) & (slot < M + K) & (token == END)
    score = tl.where(ends, tl.div_rn(log_prob, penalty), -float("inf"))
    score, log_prob = tl.where(was, old_score, score), tl.where(was, old_log_prob, log_prob)
    best = _greatest(score, 0, M, M2, SLOTS)
    here = slot[None, :] == best[:, None]
    return best, _picked(score, here), _picked(log_prob, here)


@triton.jit
def _copy(
    open_ids, finished_ids, table, b, n, parents, best, ancestors, n_tokens, n_room,
    K: tl.constexpr, M: tl.constexpr, K2: tl.constexpr, M2: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Bring the n + 1 tokens and the pasts of the hypotheses to where they belong now."""
    k, m = tl.arange(0, K2)[:, None], tl.arange(0, M2)[:, None]
    parents, best, ancestors = parents[:, None], best[:, None], ancestors[:, None]
    stays = (m < M) & (best < M) & (best != m)
    is_new = (m < M) & (best >= M)
    for begin in range(0, n + 1, BLOCK):
        s = begin + tl.arange(0, BLOCK)[None, :]
        there = s <= n
        here = (k < K) & there
        ids = tl.load(open_ids + (b * K + parents) * n_tokens + s, mask=here, other=0)
        lies = tl.load(table + (b * K + parents) * n_room + s, mask=here, other=0)
        old = tl.load(finished_ids + (b * M + best) * n_tokens + s, mask=stays & there, other=0)
        new = tl.load(open_ids + (b * K + ancestors) * n_tokens + s, mask=is_new & there, other=0)
        tl.debug_barrier()
        tl.store(open_ids + (b * K + k) * n_tokens + s, ids, mask=here)
        tl.store(table + (b * K + k) * n_room + s, lies, mask=here)
        done = finished_ids + (b * M + m) * n_tokens + s
        tl.store(done, tl.where(is_new, new, old), mask=(stays | is_new) & there)


@triton.jit
def _go_on(
    log_probs, tokens, n_written, open_ids, open_log_prob,
    finished_ids, finished_log_prob, finished_score,
    limits, penalties, ended, ids, positions, table, n_tokens, n_room, END: tl.constexpr,
    K: tl.constexpr, M: tl.constexpr, EACH: tl.constexpr, K2: tl.constexpr, M2: tl.constexpr,
    SLOTS: tl.constexpr, MANY: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    b = tl.program_id(0).to(tl.int64)
    k, m, slot = tl.arange(0, K2), tl.arange(0, M2), tl.arange(0, SLOTS)
    row, done = b * K + k, b * M + m
    position = tl.load(positions + row, mask=k < K, other=0)
    # Who has ended goes along: at an older position it would write over the past of others.
    tl.store(positions + row, tl.minimum(position + 1, n_room - 1), mask=k < K)
    if tl.load(ended + b) == 0:
        n, limit = tl.load(n_written + b).to(tl.int32), tl.load(limits + b).to(tl.int32)
        parent, token, log_prob = _continuations(
            log_probs, tokens, open_log_prob, b, K, EACH, M, SLOTS, MANY
        )
        parents, newest, total = _open(parent, token, log_prob, END, K, M, K2, SLOTS)
        best, score, done_total = _finished(
            finished_score, finished_log_prob, token, log_prob,
            tl.load(penalties + n + 1), b, END, K, M, M2, SLOTS,
        )  # fmt: skip
        ancestors = _picked(parent, slot[None, :] == best[:, None])
        bound = tl.div_rn(tl.sum(tl.where(k == 0, total, 0.0), 0), tl.load(penalties + limit))
        stops = (tl.sum(tl.where(m == M - 1, score, 0.0), 0) >= bound) | (limit <= n + 1)
        tl.debug_barrier()
        tl.store(ended + b, stops.to(tl.int8))
        tl.store(n_written + b, (n + 1).to(tl.int64))
        tl.store(open_log_prob + row, total, mask=k < K)
        tl.store(finished_score + done, score, mask=m < M)
        tl.store(finished_log_prob + done, done_total, mask=m < M)
        tl.store(ids + row, newest, mask=k < K)
        tl.store(open_ids + row * n_tokens + n + 1, newest, mask=k < K)
        _copy(
            open_ids, finished_ids, table, b, n, parents, best, ancestors, n_tokens, n_room,
            K, M, K2, M2, BLOCK,
        )  # fmt: skip


def go_on(
    log_probs: Tensor,
    tokens: Tensor,
    known: Known,
    limits: Tensor,
    penalties: Tensor,
    ended: Tensor,
    ids: Tensor,
    positions: Tensor,
    table: Tensor,
    *,
    end: int,
) -> None:
    """One step of a beam search over sentences whose pasts are found by a table (P, L).

    ``log_probs`` and ``tokens`` (B·K, n): the best continuations of each row. ``penalties`` say
    what the log-probability of so many tokens is divided by, for 0 … T - 1 tokens. Of the table
    only positions that are written change.
    """
    B, K, T = known.open_ids.shape
    M, n = known.finished_score.shape[1], tokens.shape[1]
    wide = triton.next_power_of_2(K)
    _go_on[(B,)](
        log_probs, tokens, *known,
        limits, penalties, ended, ids, positions, table, T, table.shape[1],
        END=end, K=K, M=M, EACH=n, K2=wide, M2=triton.next_power_of_2(M),
        SLOTS=triton.next_power_of_2(M + 2 * K), MANY=triton.next_power_of_2(K * n),
        BLOCK=TILE // wide, num_warps=1, num_stages=1,
    )  # fmt: skip
