"""Dividing the scores by √d_k keeps the softmax soft and its gradients alive as d_k grows.

The dot product of two vectors with entries of unit variance has variance d_k. Undivided, the
scores drift apart as d_k grows, one key takes all the weight, and the slope of the softmax goes to
zero. Measured on random queries and keys; then small models learn to look up a value by its key,
with and without the division, for training might do without it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.kernels.attention import attention
from regard.lab.result import Result, lines, listed, percent
from regard.lab.small_models import fit, seeded
from regard.layers.attention import MultiHeadAttention

_SCORES = ("scaled_dot", "dot")
_SYMBOLS, _PAIRS = 16, 8


def scaling(
    *,
    divided: bool = True,
    widths: Sequence[int] = (4, 16, 64, 256, 1024),
    trained_widths: Sequence[int] = (16, 64, 256),
    steps: int = 350,
    seed: int = 0,
) -> Result:
    """The softmax of random scores by width, ``divided`` by √d_k or not; then trained models."""
    score = "scaled_dot" if divided else "dot"
    soft = {name: [_softness(name, d, seed) for d in widths] for name in _SCORES}
    models = {
        name: [trained(name, d, steps=steps, seed=seed) for d in trained_widths] for name in _SCORES
    }
    slopes = {name: [one.slope for one in soft[name]] for name in _SCORES}
    right = {name: [model.accuracy for model in models[name]] for name in _SCORES}
    narrow, wide = soft[score][0], soft[score][-1]
    sides = zip(trained_widths, right["scaled_dot"], right["dot"], strict=True)
    needing = [d for d, with_it, without in sides if without < with_it - 0.05]
    grew = all(model.after > model.before for name in _SCORES for model in models[name])
    return Result(
        name="scaling",
        verdict=wide.entropy > narrow.entropy / 2 and wide.slope > narrow.slope / 2,
        finding=(
            f"From d_k = {widths[0]} to {widths[-1]} the slope of the softmax goes from "
            f"{narrow.slope:.2g} to {wide.slope:.2g} and the entropy of its weights from "
            f"{percent(narrow.entropy)} to {percent(wide.entropy)} of the most there can be "
            f"({score}). Models trained {steps} steps to look up a value, d_k = "
            f"{listed(trained_widths)}, answer {listed(map(percent, right['dot']))} rightly "
            f"without the division and {listed(map(percent, right['scaled_dot']))} with it, so "
            f"{'d_k = ' + listed(needing) + ' needs it' if needing else 'none needs it'}. "
            f"{'None' if grew else 'Some'} learned a smaller scale"
            f"{': in training the scores spread further yet.' if grew else '.'}"
        ),
        numbers={
            "d_k": list(widths),
            **{f"slope of the softmax: {n}": slopes[n] for n in _SCORES},
            **{f"entropy: {n}": [s.entropy for s in soft[n]] for n in _SCORES},
            "d_k of the trained": list(trained_widths),
            "d_k that need it": needing,
            **{f"accuracy of the trained: {n}": right[n] for n in _SCORES},
            **{f"spread of scores at first: {n}": [m.before for m in models[n]] for n in _SCORES},
            **{f"spread of scores trained: {n}": [m.after for m in models[n]] for n in _SCORES},
        },
        pictures=(
            lines(
                slopes,
                "Slope of the softmax on random scores",
                "log2 d_k",
                "norm of d weights / d scores",
                xs=map(math.log2, widths),
                log_y=True,
            ),
            lines(
                right,
                "Models trained to look up a value",
                "log2 d_k",
                "share right",
                xs=map(math.log2, trained_widths),
            ),
        ),
    )


class _Softness(NamedTuple):
    """Of the weights over the keys; medians over the queries, since a few ties say little."""

    entropy: float
    """As a share of the most there can be, log S."""
    slope: float
    """Frobenius norm of d weights / d scores."""


def _softness(score: str, d: int, seed: int, n_queries: int = 512, n_keys: int = 16) -> _Softness:
    rng = torch.Generator().manual_seed(seed)
    q = torch.randn(1, n_queries, d, generator=rng, dtype=torch.float64)
    k = torch.randn(1, n_keys, d, generator=rng, dtype=torch.float64)
    _, weights = attention(q, k, k, score=score, need_weights=True)
    entropy = -torch.special.xlogy(weights, weights).sum(dim=-1) / math.log(n_keys)
    return _Softness(entropy.median().item(), _slope(weights).median().item())


def _slope(weights: Tensor) -> Tensor:
    """‖diag(a) − aaᵀ‖, the Jacobian of the softmax that gave the weights a (…, S) -> (…)."""
    jacobian = torch.diag_embed(weights) - weights.unsqueeze(-1) * weights.unsqueeze(-2)
    return torch.linalg.matrix_norm(jacobian)


class Lookup(nn.Module):
    """One head: pairs of a key and a value symbol, and a key to be looked up."""

    def __init__(self, score: str, d: int) -> None:
        super().__init__()
        self.keys = nn.Embedding(_SYMBOLS, d)  # entries of unit variance, as torch has it
        self.values = nn.Embedding(_SYMBOLS, d)
        self.attention = MultiHeadAttention(d, 1, score=score)
        self.to_logits = nn.Linear(d, _SYMBOLS)

    def forward(self, keys: Tensor, values: Tensor, asked: Tensor) -> Tensor:
        """keys and values (B, S), the key that is asked for (B,) -> logits of its value (B, V)."""
        pairs = self.keys(keys) + self.values(values)
        return self.to_logits(self.attention(self.keys(asked)[:, None], pairs)[:, 0])

    @torch.no_grad()
    def spread(self) -> float:
        """How far a query's scores lie apart: their deviation over all keys."""
        q, k = self.attention.to_q(self.keys.weight), self.attention.to_k(self.keys.weight)
        return self.attention.score(q, k).std(dim=-1).mean().item()


class TrainedLookup(NamedTuple):
    """What became of a model."""

    accuracy: float
    """The share of new questions that it answers rightly."""
    before: float
    """The spread of its scores before training."""
    after: float


def trained(score: str, d: int, *, steps: int, seed: int, n_models: int = 2) -> TrainedLookup:
    """Train a few models of width d with other seeds; means over them."""
    runs = [_trained(score, d, steps, seed + i) for i in range(n_models)]
    return TrainedLookup(*map(fmean, zip(*runs, strict=True)))


def _trained(score: str, d: int, steps: int, seed: int) -> TrainedLookup:
    rng = torch.Generator().manual_seed(seed)
    with seeded(seed):
        model = Lookup(score, d)
    before = model.spread()

    def loss() -> Tensor:
        *question, answer = questions(32, rng)
        return F.cross_entropy(model(*question), answer)

    # A step moves each score by d products, so wide models take smaller ones.
    fit(model.parameters(), loss, steps=steps, lr=0.032 / math.sqrt(d))
    *question, answer = questions(2000, rng)
    with torch.no_grad():
        accuracy = (model(*question).argmax(dim=-1) == answer).double().mean().item()
    return TrainedLookup(accuracy, before, model.spread())


def questions(n: int, rng: torch.Generator) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Keys, all different, and values (B, S); a key to ask for (B,); its value (B,)."""
    keys = torch.rand(n, _SYMBOLS, generator=rng).argsort(dim=1)[:, :_PAIRS]
    values = torch.randint(_SYMBOLS, (n, _PAIRS), generator=rng)
    which = torch.randint(_PAIRS, (n, 1), generator=rng)
    return keys, values, keys.gather(1, which)[:, 0], values.gather(1, which)[:, 0]
