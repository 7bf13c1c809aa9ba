"""Hard attention as a layer: it draws while it learns, and keeps an account of what it drew.

A draw has no derivative, so what a query's choice was worth must come from elsewhere: whoever
trains listens to the accounts and multiplies their log-probabilities by a reward (REINFORCE).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from regard.functional.attend import NORMALISERS, Normaliser, hard, is_drawn


class DrawnKeys(NamedTuple):
    """The account of some queries; both depend on the scores and can be learned through."""

    log_prob: Tensor
    """(B, H, T): of the key that was drawn."""
    entropy: Tensor
    """(B, H, T): of what it was drawn from, in nats."""


class Account(nn.Identity):
    """Is handed the ``DrawnKeys``; listen with ``register_forward_hook``."""


class Draw(nn.Module):
    """One key a query, drawn by the softmax; in evaluation the one that ``pick`` takes.

    Draws come from torch's default generator, as dropout's do.
    """

    def __init__(self, pick: Normaliser = hard) -> None:
        super().__init__()
        self.pick = pick
        self.account = Account()

    def forward(self, scores: Tensor, visible: Tensor | None) -> Tensor:
        """Scores (B, H, T, S) -> weights of the same shape: a single 1 a row, or none."""
        if not self.training:
            return self.pick(scores, visible)
        # The largest of scores with Gumbel noise is a draw from their softmax.
        noise = -torch.empty_like(scores).exponential_().log()
        chosen = hard(scores.detach() + noise, visible)
        lowest = torch.finfo(scores.dtype).min / 2  # finite, so that 0 · log 0 is 0
        seen = scores if visible is None else scores.masked_fill(~visible, lowest)
        log_probs = seen.clamp(min=lowest).log_softmax(dim=-1)
        entropy = -(log_probs.exp() * log_probs).sum(dim=-1)
        self.account(DrawnKeys((chosen * log_probs).sum(dim=-1), entropy))
        return chosen


class Remembered:
    """A normaliser that decides once: who asks it again is told the same weights."""

    def __init__(self, normaliser: Normaliser) -> None:
        self.normaliser = normaliser
        self.weights: Tensor | None = None

    def __call__(self, scores: Tensor, visible: Tensor | None) -> Tensor:
        """Scores (B, H, T, S) -> the weights of the first call, however often it is asked."""
        if self.weights is None:
            self.weights = self.normaliser(scores, visible)
        return self.weights.to(scores.dtype)


def normaliser(name: str) -> Normaliser:
    """A normaliser for a layer: a function of the registry, or where that says so a draw."""
    found = NORMALISERS[name]
    return Draw(found) if is_drawn(name) else found
