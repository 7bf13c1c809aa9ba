"""The smallest task that needs attention: look up the value that stands beside a key."""

from __future__ import annotations

import math
from statistics import fmean
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.lab.learning import fit
from regard.layers.attention import MultiHeadAttention

_SYMBOLS, _PAIRS = 16, 8


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


class Trained(NamedTuple):
    """What became of a model."""

    accuracy: float
    """The share of new questions that it answers rightly."""
    before: float
    """The spread of its scores before training."""
    after: float


def trained(score: str, d: int, *, steps: int, seed: int, n_models: int = 2) -> Trained:
    """Train a few models of width d with other seeds; means over them."""
    runs = [_trained(score, d, steps, seed + i) for i in range(n_models)]
    return Trained(*map(fmean, zip(*runs, strict=True)))


def _trained(score: str, d: int, steps: int, seed: int) -> Trained:
    rng = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
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
    return Trained(accuracy, before, model.spread())


def questions(n: int, rng: torch.Generator) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Keys, all different, and values (B, S); a key to ask for (B,); its value (B,)."""
    keys = torch.rand(n, _SYMBOLS, generator=rng).argsort(dim=1)[:, :_PAIRS]
    values = torch.randint(_SYMBOLS, (n, _PAIRS), generator=rng)
    which = torch.randint(_PAIRS, (n, 1), generator=rng)
    return keys, values, keys.gather(1, which)[:, 0], values.gather(1, which)[:, 0]
