"""Cross-entropy of each row and its gradient, written over the logits, in Triton.

One program a row, where plain operations would pass over the logits eight times in float32: a row
that fits into a program's registers is read once and written once, a longer one is read twice.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 8192
"""Logits that a program handles at a time where a row is too long for its registers."""
AT_ONCE = 32_768
"""Logits that fit into them: 64 for each of 512 threads. With twice as many of both, a thread has
half the registers and spills: 12 ms for GPT-2's vocabulary and 32,768 tokens on an H200."""


@triton.jit
def _short_rows(
    logits, targets, losses, stride, n_vocab, pad, smoothing,
    GRADIENT: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    v = tl.arange(0, BLOCK)
    here = v < n_vocab
    line = logits + row * stride + v
    target = tl.load(targets + row)
    if target == pad:
        tl.store(losses + row, 0.0)
        if GRADIENT:
            tl.store(line, 0.0, mask=here)
    else:
        x = tl.load(line, mask=here, other=-float("inf")).to(tl.float32)
        top = tl.max(x, 0)
        wanted = tl.sum(tl.where(v == target, x, 0.0), 0)
        plain = tl.sum(tl.where(here, x, 0.0), 0)
        shares = tl.exp(x - top)
        total = tl.sum(shares, 0)
        spread = smoothing / n_vocab
        norm = top + tl.log(total)
        tl.store(losses + row, norm - (1.0 - smoothing) * wanted - spread * plain)
        if GRADIENT:
            gradient = shares / total - spread - tl.where(v == target, 1.0 - smoothing, 0.0)
            tl.store(line, gradient.to(logits.dtype.element_ty), mask=here)


@triton.jit
def _long_rows(
    logits, targets, losses, stride, n_vocab, pad, smoothing,
    GRADIENT: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    line = logits + row * stride
    target = tl.load(targets + row)
    v = tl.arange(0, BLOCK)
    if target == pad:
        tl.store(losses + row, 0.0)
        if GRADIENT:
            for begin in range(0, n_vocab, BLOCK):
                tl.store(line + begin + v, 0.0, mask=begin + v < n_vocab)
    else:
        top, total, plain = -float("inf"), 0.0, 0.0
        for begin in range(0, n_vocab, BLOCK):
            here = begin + v < n_vocab
            x = tl.load(line + begin + v, mask=here, other=-float("inf")).to(tl.float32)
            higher = tl.maximum(top, tl.max(x, 0))
            total = total * tl.exp(top - higher) + tl.sum(tl.exp(x - higher), 0)
            plain += tl.sum(tl.where(here, x, 0.0), 0)
            top = higher
        norm = top + tl.log(total)
        wanted = tl.load(line + target).to(tl.float32)
        spread = smoothing / n_vocab
        tl.store(losses + row, norm - (1.0 - smoothing) * wanted - spread * plain)
        tl.debug_barrier()  # the target's logit is read before it is written over
        if GRADIENT:
            for begin in range(0, n_vocab, BLOCK):
                here = begin + v < n_vocab
                x = tl.load(line + begin + v, mask=here, other=-float("inf")).to(tl.float32)
                gradient = tl.exp(x - norm) - spread
                gradient -= tl.where(begin + v == target, 1.0 - smoothing, 0.0)
                tl.store(line + begin + v, gradient.to(logits.dtype.element_ty), mask=here)


def cross_entropy_rows_(
    logits: Tensor, targets: Tensor, *, pad: int, smoothing: float, gradient: bool
) -> Tensor:
    """Logits (N, V), targets (N,) -> losses (N,); with ``gradient`` the logits become theirs."""
    N, V = logits.shape
    losses = torch.empty(N, dtype=torch.float32, device=logits.device)
    fits = V <= AT_ONCE
    block = triton.next_power_of_2(V) if fits else BLOCK
    kernel = _short_rows if fits else _long_rows
    kernel[(N,)](
        logits, targets, losses, logits.stride(0), V, pad, smoothing,
        GRADIENT=gradient, BLOCK=block, num_warps=min(32, max(4, block // 2048)) if fits else 16,
    )  # fmt: skip
    return losses
