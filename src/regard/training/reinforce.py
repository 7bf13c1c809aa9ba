"""REINFORCE (Williams 1992), as Xu et al. 2015 teach hard attention with it.

What is to be made large is the expected log-probability of the target. Its gradient has two parts:
through the values that were looked at, which the ordinary loss gives, and through the chances of
looking there, which is E[(R - b) ∇ log p(draw)]. R is the log-probability of all that was written
from the draw on; b is what such a stretch is usually worth, and changes nothing on average.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from regard.layers.draw import Account, DrawnKeys

ENTROPY = 0.01
"""What a nat of entropy is worth: enough that no head makes up its mind at once."""
DECAY = 0.9
"""Of the baseline, as in the paper."""


@contextmanager
def accounts(model: nn.Module) -> Iterator[dict[str, list[DrawnKeys]]]:
    """What every hard attention of the model draws inside the block, by name, in order."""
    drawing = {name: one for name, one in model.named_modules() if isinstance(one, Account)}
    kept: dict[str, list[DrawnKeys]] = {name: [] for name in drawing}
    names = {module: name for name, module in drawing.items()}

    def keep(module: Account, _inputs: object, account: DrawnKeys) -> None:
        kept[names[module]].append(account)

    handles = [module.register_forward_hook(keep) for module in names]
    try:
        yield kept
    finally:
        for handle in handles:
            handle.remove()


def surrogate(drawn: list[DrawnKeys], gains: Tensor, real: Tensor) -> Tensor:
    """A number whose gradient is REINFORCE's estimate, negative: it is to be made small.

    ``drawn`` are the draws of one attention at target positions, all at once or step by step;
    gains (B, T): how much better than usual it went from there on; real (B, T): no padding.
    """
    log_prob = torch.cat([one.log_prob for one in drawn], dim=-1)  # (B, H, T)
    entropy = torch.cat([one.entropy for one in drawn], dim=-1)
    worth = log_prob * gains.detach().unsqueeze(1) + ENTROPY * entropy
    return -(worth * real.unsqueeze(1)).sum()


class Baseline:
    """A moving mean of the log-probability a token, and of how far rewards stray from it."""

    def __init__(self) -> None:
        self.mean: float | None = None
        self.variance = 1.0

    def gains(self, log_probs: Tensor, real: Tensor) -> Tensor:
        """log_probs (B, T) of the right tokens -> reward to come minus the usual one (B, T).

        Divided by its usual size where that is more than 1 (Mnih & Gregor 2014), lest a bad start
        drown all other gradients. The baseline then moves a little towards what was seen.
        """
        log_probs = (log_probs * real).detach()
        mean = (log_probs.sum() / real.sum()).item()
        usual = mean if self.mean is None else self.mean
        to_come = (log_probs - usual * real).flip(1).cumsum(dim=1).flip(1)
        variance = ((to_come * real).square().sum() / real.sum()).item()
        gains = to_come / max(1.0, math.sqrt(self.variance))
        self.mean = DECAY * usual + (1 - DECAY) * mean
        self.variance = DECAY * self.variance + (1 - DECAY) * variance
        return gains

    def state(self) -> dict[str, float | None]:
        """All of it, as JSON."""
        return {"mean": self.mean, "variance": self.variance}

    def restore(self, state: Mapping[str, float | None]) -> None:
        """Become what ``state`` told of."""
        self.mean = state["mean"]
        self.variance = state["variance"] or 0.0
