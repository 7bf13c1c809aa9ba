"""Each row of attention weights is a distribution over the keys, every weight between 0 and 1.

The softmax of real scores is positive and sums to 1 over the keys, so no single weight can be 0 or
1. Three things take a weight out of the open interval all the same: a mask (exactly 0), a single
key (exactly 1), and scores so far apart that a float underflows (0 again, and 1 beside it).
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.functional.masks import causal
from regard.kernels.attention import attention
from regard.lab.result import Result, share_bars
from regard.visual.matrix import matrix


def rows(*, n_keys: int = 6, axis: int = -1, seed: int = 0) -> Result:
    """Weights of random queries and keys; ``axis`` is the one that the softmax should sum over."""
    rng = torch.Generator().manual_seed(seed)
    q, k = (torch.randn(1, 1, n_keys, 8, generator=rng, dtype=torch.float64) for _ in range(2))
    plain = _weights(q, k)
    off = {
        "plain": _outside(plain),
        "causal mask": _outside(_weights(q, k, mask=causal(n_keys, n_keys))),
        "one key": _outside(_weights(q, k[:, :, :1])),
        "scores × 1,000": _outside(_weights(1000 * q, k)),
    }
    error = (plain.sum(dim=axis) - 1).abs().max().item()
    verdict = error < 1e-9 and off["plain"] == 0
    names = [f"token {i}" for i in range(n_keys)]
    return Result(
        name="rows",
        verdict=verdict,
        finding=(
            f"Sums over the keys differ from 1 by at most {error:.1g}; no plain weight is 0 or 1. "
            f"Of the weights, {100 * off['causal mask']:.0f} % leave (0, 1) under a causal mask, "
            f"{100 * off['one key']:.0f} % with one key, and {100 * off['scores × 1,000']:.0f} % "
            "where scores are a thousand times larger."
            if verdict
            else f"Sums along this axis differ from 1 by up to {error:.2g}: only those over the "
            "keys are 1."
        ),
        numbers={
            "largest error of a sum": error,
            **{f"outside (0, 1): {n}": v for n, v in off.items()},
        },
        pictures=(
            matrix(plain[0, 0].tolist(), names, names, title="One row a query"),
            share_bars(off, title="Weights that are exactly 0 or 1"),
        ),
    )


def _weights(q: Tensor, k: Tensor, mask: Tensor | None = None) -> Tensor:
    _, weights = attention(q, k, k, mask=mask, need_weights=True)
    return weights


def _outside(weights: Tensor) -> float:
    """The share of weights that are exactly 0 or 1."""
    return ((weights <= 0) | (weights >= 1)).double().mean().item()
