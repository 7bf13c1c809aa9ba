"""The attention of a text that is written one token a step, over rows that stay where they are.

Keys and values lie in room that was made before, ``past`` (2, P, G, L, D): keys are kept turned
already, and once for all heads that share them. All rows stand at the same ``place``, a tensor, so
that a step can be recorded once and played again.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.functional.precision import wide


def attend_own(
    qkv: Tensor, past: Tensor, place: Tensor, turns: Tensor | None, scale: float
) -> Tensor:
    """Queries, keys and values side by side (R, (H + 2·G)·D) -> what each row finds (R, H·D).

    Those of rows 0 … R are at ``place`` (1,) and are kept there; a row sees them and its past.
    ``turns`` (L, D / 2) are complex, None where positions are told elsewhere.
    """
    if qkv.is_cuda:
        from regard.functional.kernels.gpu import own_past

        return own_past.attend_own(qkv, past, place, turns, scale)
    R, (_, _, G, _, D), t = len(qkv), past.shape, int(place)
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
