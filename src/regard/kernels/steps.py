"""The pieces of one decoding step over rows that stay where they are.

A *row* is a hypothesis. Its new token stands at its ``position``. Keys and values of the past lie
in room that was made before, ``past`` (2, P, H, L, D): row i writes what it has at position t into
slot (i, t), and a ``table`` (P, L) says in which row position s of its past lies. So a beam is
reordered by permuting the table. Rows of one sentence, their ``owner``, look at the same source.

Nothing here waits for the device or has a shape that depends on a value, so a step can be recorded
once and played again. On a GPU each piece is one kernel; here it says what they owe.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.functional.attend import wide
from regard.kernels.gpu import HAS_TRITON, triton_kernels

CHUNK = 128
"""Numbers of which only the greatest is looked at first."""


class Best(NamedTuple):
    """The most probable tokens of each row, best first."""

    log_prob: Tensor
    """(R, n) float32"""
    ids: Tensor
    """(R, n) int64"""


def embed(
    ids: Tensor, positions: Tensor, table: Tensor, tokens: Tensor, codes: Tensor, scale: float
) -> Tensor:
    """ids (R,) at positions (R,) -> scale · token + code of the position (R, D).

    Enters into the table that each row's newest position lies in its own row.
    """
    if ids.is_cuda:
        return triton_kernels("step_rows").embed(ids, positions, table, tokens, codes, scale)
    rows = torch.arange(len(ids))
    table[rows, positions.long()] = rows.int()
    return (tokens[ids].float() * scale + codes[positions.long()].float()).to(tokens.dtype)


def attend_past(
    qkv: Tensor, past: Tensor, table: Tensor, positions: Tensor, scale: float
) -> Tensor:
    """Queries, keys and values side by side (R, 3·H·D) -> what each row finds (R, H·D).

    The keys and values are kept in ``past`` (2, P, H, L, D); a row sees them and its past.
    """
    if qkv.is_cuda:
        return triton_kernels("cached_attention").attend_past(qkv, past, table, positions, scale)
    R, (_, _, H, L, D) = len(qkv), past.shape
    q, k, v = qkv.view(R, 3, H, D).unbind(dim=1)
    rows, at = torch.arange(R), positions.long()
    past[0, rows, :, at], past[1, rows, :, at] = k, v
    s = torch.arange(L)
    lies = torch.where(s <= at[:, None], table[:R].long(), 0)
    keys, values = (part[lies, :, s] for part in past)  # (R, L, H, D)
    return _found(q, keys, values, s <= at[:, None], scale)


def attend_source(
    q: Tensor, memory: Tensor, owners: Tensor, begins: Tensor, lengths: Tensor, scale: float
) -> Tensor:
    """Queries (R, H·D) look at their owner's source -> (R, H·D).

    memory (N, 2, H, D): keys and values of all sentences, that of sentence i from ``begins[i]``
    on, ``lengths[i]`` tokens long.
    """
    if q.is_cuda:
        return triton_kernels("cached_attention").attend_source(
            q, memory, owners, begins, lengths, scale
        )
    _, _, H, D = memory.shape
    owners = owners[: len(q)].long()
    s = torch.arange(max(1, int(lengths.max())))
    seen = s < lengths[owners][:, None]
    read = memory[torch.where(seen, begins[owners][:, None] + s, 0)]  # (R, S, 2, H, D)
    return _found(q.view(-1, H, D), read[:, :, 0], read[:, :, 1], seen, scale)


def _found(q: Tensor, k: Tensor, v: Tensor, seen: Tensor, scale: float) -> Tensor:
    """q (R, H, D), k and v (R, S, H, D), seen (R, S) -> (R, H·D)."""
    scores = torch.einsum("rhd,rshd->rhs", q.float(), k.float()) * scale
    weights = scores.masked_fill(~seen[:, None], -1e30).softmax(dim=-1) * seen[:, None]
    return torch.einsum("rhs,rshd->rhd", weights, v.float()).flatten(1).to(q.dtype)


def add_norm(
    x: Tensor, added: Tensor, weight: Tensor, bias: Tensor, eps: float, *, keep: bool
) -> tuple[Tensor, Tensor]:
    """x + added (R, D), and the same normalised; without ``keep`` the latter for both."""
    if x.is_cuda:
        return triton_kernels("step_rows").add_norm(x, added, weight, bias, eps, keep)
    total = x.float() + added.float()
    normed = F.layer_norm(total, total.shape[-1:], weight.float(), bias.float(), eps).to(x.dtype)
    return (total.to(x.dtype) if keep else normed), normed


def best_tokens(logits: Tensor, n: int, *, n_hidden: int) -> Best:
    """Logits (R, V) -> the n most probable tokens; the first ``n_hidden`` can't be chosen.

    Those keep their share of the probability: what a search reports is what the model says of its
    target, and a plain forward finds it again.
    """
    if logits.is_cuda and HAS_TRITON and logits.dtype != torch.float64:
        return Best(*triton_kernels("step_rows").best_tokens(logits, n, n_hidden))
    found = log_probs(logits)  # faster than logsumexp
    found[:, :n_hidden] = -torch.inf
    return Best(*top(found, n))


def log_probs(logits: Tensor) -> Tensor:
    """Logits (…, V) -> log-probabilities (…, V), at least in float32."""
    return logits.log_softmax(dim=-1, dtype=wide(logits.dtype))


def top(x: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """The result of ``x.topk(n)`` for rows (R, V), several times faster for long ones.

    The n greatest lie in the n chunks with the greatest maxima.
    """
    n_chunks = x.shape[1] // CHUNK
    if n_chunks <= 2 * n:
        return x.max(dim=1, keepdim=True) if n == 1 else x.topk(n)
    chunks, rest = x[:, : n_chunks * CHUNK], x[:, n_chunks * CHUNK :]
    chunks = chunks.unflatten(1, (n_chunks, CHUNK))
    where = _greatest(chunks.amax(dim=2), n)
    near = chunks.gather(1, where.unsqueeze(2).expand(-1, -1, CHUNK)).flatten(1)
    near = torch.cat((near, rest), dim=1)
    at = _greatest(near, n)
    ids = where.gather(1, (at // CHUNK).clamp(max=n - 1)) * CHUNK + at % CHUNK
    ids = torch.where(at < n * CHUNK, ids, at + (n_chunks - n) * CHUNK)
    return near.gather(1, at), ids


def _greatest(x: Tensor, n: int) -> Tensor:
    return x.argmax(dim=1, keepdim=True) if n == 1 else x.topk(n).indices


def note(
    best: Best,
    ids: Tensor,
    positions: Tensor,
    owners: Tensor,
    finished: Tensor,
    limits: Tensor,
    written: Tensor,
    totals: Tensor,
    *,
    end: int,
) -> None:
    """Write the best token (R, 1) of each row down, where it has not ``finished`` (R,) yet.

    ids and positions (R,) become those of the next step; the positions of finished rows too, for at
    an older one they would write over the past of others. By their owners, ``written`` (N, L) gets
    the tokens, ``totals`` (N,) their log-probabilities. A row finishes with the end token or when
    it has as many tokens as ``limits`` (N,) says.
    """
    if ids.is_cuda:
        triton_kernels("step_rows").note(
            best.ids, best.log_prob, ids, positions, owners, finished, limits, written, totals, end
        )
        return
    going = (finished == 0).nonzero().squeeze(1)
    owner, position, chosen = owners[going].long(), positions[going].long(), best.ids[going, 0]
    totals[owner] += best.log_prob[going, 0]
    written[owner, position] = chosen.to(written.dtype)
    ids[going] = chosen
    ends = (chosen == end) | (position + 1 >= limits[owner])
    finished[going] = ends.to(finished.dtype)
    positions.add_(1).clamp_(max=written.shape[1] - 1)


def attend_own(
    qkv: Tensor, past: Tensor, position: Tensor, turns: Tensor | None, scale: float
) -> Tensor:
    """Queries, keys and values side by side (R, (H + 2·G)·D) -> what each row finds (R, H·D).

    Those of rows 0 … R are at ``position`` (1,) and are kept there; a row sees them and its past.
    ``turns`` (L, D / 2) are complex, None where positions are told elsewhere.
    """
    if qkv.is_cuda:
        return triton_kernels("cached_attention").attend_own(qkv, past, position, turns, scale)
    R, (_, _, G, _, D), t = len(qkv), past.shape, int(position)
    q, k, v = heads(qkv.to(past.dtype), G, D, None if turns is None else turns[t])
    past[0, :R, :, t], past[1, :R, :, t] = k, v
    keys, values = past[:, :R, :, : t + 1]
    asked = q.view(R, G, -1, D)  # those who share keys ask side by side
    weights = (asked @ keys.mT).mul_(scale).softmax(dim=-1)
    return (weights @ values).view(R, -1).to(qkv.dtype)


def heads(
    qkv: Tensor, n_kv_heads: int, width: int, turns: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """(…, (H + 2·G)·D) -> queries (…, H, D), keys (…, G, D), both turned, and values (…, G, D)."""
    parts = qkv.unflatten(-1, (-1, width))
    n = parts.shape[-2] - n_kv_heads
    qk, v = parts.split((n, n_kv_heads), dim=-2)
    if turns is not None:
        qk = turned(qk, turns)
    q, k = qk.split((n - n_kv_heads, n_kv_heads), dim=-2)
    return q, k, v


def turned(x: Tensor, turns: Tensor) -> Tensor:
    """x (…, N, D) with each pair (2i, 2i + 1) times a complex number of ``turns`` (…, D / 2)."""
    numbers = x.to(wide(x.dtype))
    pairs = torch.view_as_complex(numbers.unflatten(-1, (-1, 2)).contiguous())
    found = torch.view_as_real(pairs * turns.unsqueeze(-2)).flatten(-2)
    return found.to(x.dtype)
