"""Learning from a reward for whole targets: O = α · O_ML + O_RL (Wu et al. 2016, section 5).

O_RL is the expected reward of what the model itself writes. Its gradient is E[(r - b) ∇ log P(y)]
(Williams 1992), estimated from k samples of each source; b is the mean reward of the k - 1 other
samples of that source, which changes nothing on average. That is the same as (r - the mean of all)
· k / (k - 1), so the mean of k = 15 that the paper subtracts gives 14/15 of this gradient.

Samples and rewards are handed in: nothing here knows how one searches or what is good.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from regard.data.batch import Batch
from regard.kernels.steps import log_probs
from regard.layers.experts import Gate
from regard.models.base import SequenceModel
from regard.text.specials import BEGIN_ID, PAD_ID
from regard.training.losses import Losses, Objective
from regard.training.settings import TrainSettings

PART = 4
"""Positions of samples that are read at once, in multiples of those of all sources."""


class Samples(NamedTuple):
    """k targets for each of B sources; those of one source lie side by side."""

    source: Tensor
    """(B, …): as the model has read them."""
    ids: Tensor
    """(B·k, 1 + T): from the begin token on, up to the end token or the limit, then padding."""
    rewards: Tensor
    """(B, k), on the device of the ids."""


Draw = Callable[[SequenceModel, Batch, torch.Generator], Samples]
"""Samples of a model that is in evaluation, for the sources of a batch, and their rewards."""


class ExpectedReward(Objective):
    """``likelihood``: α times the losses of the right targets. ``rl``: minus the expected reward.

    Sums over sentences, as the paper has them. The value of ``rl`` is minus the mean reward of the
    samples; its gradient is the estimate. All that is random comes from torch's default generator,
    so that a training can be taken up again.
    """

    def __init__(self, settings: TrainSettings, likelihood: Objective, draw: Draw) -> None:
        self.settings, self.likelihood, self.draw = settings, likelihood, draw

    def __call__(self, model: SequenceModel, batch: Batch) -> Losses:
        """The losses of a batch (not packed), for a model in training, without dropout."""
        right = self.likelihood(model, batch).total * self.settings.likelihood_weight
        rng = torch.Generator().manual_seed(int(torch.randint(2**63 - 1, ())))
        model.eval()
        with torch.no_grad():
            samples = self.draw(model, batch, rng)
        model.train()
        log_probs = target_log_probs(model, samples.source, samples.ids)
        reward = reward_loss(log_probs, samples.rewards)
        counts = {"likelihood": batch.count, "rl": len(samples.source)}
        return Losses({"likelihood": right, "rl": reward}, counts)

    def begin_update(self, step: int) -> None:
        """The likelihood is told."""
        self.likelihood.begin_update(step)

    def state(self) -> dict[str, Any]:
        """What it remembers, as JSON."""
        return {"likelihood": self.likelihood.state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Remember it again."""
        self.likelihood.restore(state["likelihood"])


def reward_loss(log_prob: Tensor, rewards: Tensor) -> Tensor:
    """Minus the mean reward of each source, summed (); its gradient is REINFORCE's estimate.

    ``log_prob`` (B·k,) of the samples, rewards (B, k).
    """
    gains = rewards - rewards.mean(dim=1, keepdim=True)
    worth = (gains * log_prob.view(rewards.shape)).sum() / (rewards.shape[1] - 1)
    return -(worth - worth.detach() + rewards.mean(dim=1).sum())


def target_log_probs(model: SequenceModel, source: Tensor, ids: Tensor) -> Tensor:
    """The log-probability that each target (B·k, 1 + T) is sampled, for sources (B, …) -> (B·k,).

    Padding and the begin token are never sampled: the others share their probability. Where there
    are many samples, they are read in parts, and again in the backward pass: all at once would take
    k times the memory of a usual step.
    """
    n = len(ids) // len(source)
    rows = max(1, PART * source.numel() // (n * ids.shape[1]))
    if rows >= len(source):
        return _read_log_probs(model, source, ids)
    parts = zip(source.split(rows), ids.split(n * rows), strict=True)
    return torch.cat([_checkpointed(_read_log_probs, model, *part) for part in parts])


def _read_log_probs(model: SequenceModel, source: Tensor, ids: Tensor) -> Tensor:
    """The same at once, but for logits: these are made for as many targets as there are sources."""
    n = len(ids) // len(source)
    with _as_sampled(model):
        memory = encoded(model, source, n)
        states, _ = model.read(ids[:, :-1], memory, model.start(memory))
    weight, bias = model.output()
    parts = zip(states.split(len(source)), ids[:, 1:].split(len(source)), strict=True)
    found = [_checkpointed(_log_probs, part, weight, bias, wanted) for part, wanted in parts]
    return torch.cat(found)


def encoded(model: SequenceModel, source: Tensor, n: int) -> Any:
    """The memory of n targets for each of the sources (B, …), side by side: B·n rows."""
    rows = torch.arange(len(source) * n, device=source.device)
    return model.encode(source).select(rows // n)


def _checkpointed(function: Callable[..., Tensor], *inputs: Any) -> Tensor:
    """What its gradient needs is not kept, but computed again in the backward pass."""
    found: Tensor = checkpoint(function, *inputs, use_reentrant=False, preserve_rng_state=False)
    return found


@contextmanager
def _as_sampled(model: SequenceModel) -> Iterator[None]:
    """Gates of experts choose, and batch norms scale, as they did when samples were drawn."""
    kinds = (Gate, nn.BatchNorm2d)
    changed = [one for one in model.modules() if isinstance(one, kinds) and one.training]
    for one in changed:
        one.eval()
    try:
        yield
    finally:
        for one in changed:
            one.train()


def _log_probs(states: Tensor, weight: Tensor, bias: Tensor | None, wanted: Tensor) -> Tensor:
    """States (N, T, D), the ids (N, T) that were sampled after them -> (N,)."""
    logits = F.linear(states, weight, bias)
    each_id = torch.arange(logits.shape[-1], device=logits.device)
    hidden = (each_id == PAD_ID) | (each_id == BEGIN_ID)  # nobody samples what is no word
    each = log_probs(logits.masked_fill(hidden, -torch.inf))
    chosen = each.gather(2, wanted.unsqueeze(2)).squeeze(2)
    return chosen.masked_fill(wanted == PAD_ID, 0.0).sum(dim=1)
