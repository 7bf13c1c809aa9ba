"""What training makes small: named sums with their counts, and the cross-entropies they sum.

An objective reads a batch through the model's ``forward`` and returns ``Losses``. Sums, and not
means, so that micro-batches and devices can be added up and divided once. Label smoothing ε is
here alone: the wanted distribution is 1 - ε on the target, ε being spread over all choices.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.kernels.linear_cross_entropy import linear_cross_entropy
from regard.layers.experts import Balance, BalanceAccount
from regard.models.base import LazyLogits, SequenceModel

NO_PAD = -1
"""The id of padding where every target counts."""


@dataclass(frozen=True, slots=True)
class Losses:
    """Sums of losses by name, each with how many things it was summed over."""

    sums: Mapping[str, Tensor]
    """Each (): of one unit, so that their sum is what is made small."""
    counts: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, name: str, total: Tensor, count: int) -> Losses:
        """One loss."""
        return cls({name: total}, {name: count})

    def __add__(self, other: Losses) -> Losses:
        """Those of another batch or another name: equal names are added up."""
        sums, counts = dict(self.sums), dict(self.counts)
        for name, value in other.sums.items():
            sums[name] = sums[name] + value if name in sums else value
            counts[name] = counts.get(name, 0) + other.counts[name]
        return Losses(sums, counts)

    @property
    def total(self) -> Tensor:
        """What is made small: all sums together ()."""
        first, *others = self.sums.values() or [torch.zeros(())]
        return sum(others, start=first)

    def detached(self) -> Losses:
        """The same numbers without their history."""
        return Losses({name: value.detach() for name, value in self.sums.items()}, self.counts)


class Objective(Protocol):
    """Computes the losses of a batch. It may remember things between batches; this one does not."""

    def __call__(self, model: Any, batch: Any, /) -> Losses:
        """The losses of a batch, summed over its target tokens."""
        ...

    def begin_update(self, step: int) -> None:
        """Is told before each update how many were made."""
        return

    def state(self) -> dict[str, Any]:
        """What it remembers, as JSON."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Remember it again."""
        return


def expert_accounts(model: nn.Module) -> list[nn.Module]:
    """Every place of a model that tells how busy its experts are."""
    return [one for one in model.modules() if isinstance(one, BalanceAccount)]


@contextmanager
def balances(accounts: Sequence[nn.Module]) -> Iterator[dict[nn.Module, list[Balance]]]:
    """How unequally busy experts were inside the block, call by call, by ``expert_accounts``."""
    kept: dict[nn.Module, list[Balance]] = {one: [] for one in accounts}

    def keep(module: nn.Module, _inputs: object, balance: Balance) -> None:
        kept[module].append(balance)

    handles = [one.register_forward_hook(keep) for one in accounts]
    try:
        yield kept
    finally:
        for handle in handles:
            handle.remove()


def balance_losses(
    kept: Mapping[nn.Module, Sequence[Balance]], count: int, n_tokens: Tensor | None = None
) -> Losses:
    """``importance`` and ``load``, the mean over each layer's calls, for ``count`` tokens.

    They are numbers of a whole batch. Multiplied with its tokens they stand beside sums over
    tokens, and several batches are weighed by their sizes. A graph that is replayed with other
    batches finds their ``count`` in the tensor ``n_tokens``.
    """
    layers = [calls for calls in kept.values() if calls]
    factor = count if n_tokens is None else n_tokens
    sums = {
        name: factor * torch.stack([sum(values) / len(values) for values in by_layer]).sum()
        for name in Balance._fields
        if (by_layer := [[getattr(one, name) for one in calls] for calls in layers])
    }
    return Losses(sums, dict.fromkeys(sums, count))


def cross_entropy(
    logits: Tensor | LazyLogits, targets: Tensor, *, pad: int = NO_PAD, label_smoothing: float = 0.0
) -> Tensor:
    """Summed over all targets that are not padding: logits (…, V), targets (…) -> ().

    Of ``LazyLogits`` by a kernel that never builds the logits of a whole batch.
    """
    if isinstance(logits, LazyLogits):
        return linear_cross_entropy(
            logits.states.flatten(0, -2),
            logits.weight,
            logits.bias,
            targets.flatten(),
            pad=pad,
            label_smoothing=label_smoothing,
        )
    return F.cross_entropy(
        logits.flatten(0, -2).float(),
        targets.flatten(),
        ignore_index=pad,
        label_smoothing=label_smoothing,
        reduction="sum",
    )


def choice_cross_entropy(
    logits: Tensor, targets: Tensor, allowed: Tensor, *, label_smoothing: float = 0.0
) -> Tensor:
    """Of choosing one of the allowed options: logits (B, S), targets (B,), allowed (B, S) -> ()."""
    log_probs = logits.float().masked_fill(~allowed, -torch.inf).log_softmax(dim=1)
    loss = -log_probs.gather(1, targets.unsqueeze(1)).sum()
    if not label_smoothing:
        return loss
    spread = log_probs.masked_fill(~allowed, 0.0).sum(dim=1) / allowed.sum(dim=1)
    return (1 - label_smoothing) * loss - label_smoothing * spread.sum()


def token_log_probs(logits: Tensor, targets: Tensor) -> Tensor:
    """logits (B, T, V), targets (B, T) -> the log-probability of each target (B, T)."""
    chosen = logits.float().log_softmax(dim=-1).gather(2, targets.unsqueeze(2))
    return chosen.squeeze(2)


def free_running_logits(
    model: SequenceModel, source: Tensor, target: Tensor, share: float, of: Tensor | None = None
) -> Tensor:
    """Logits (B, T, V) for target ids (B, T) from the begin token on, some replaced as we go.

    ``of`` (B,) says which source each target is of, where there are not as many.

    Each next word is the right one with the chance ``share``, else the model's own best guess:
    scheduled sampling (Bengio et al. 2015), and with a share of 0 free running. A model that reads
    its own words must write one after the other, so this is a loop of steps for every model.
    """
    memory = model.encode(source)
    memory = memory if of is None else memory.select(of)
    state = model.start(memory)
    ids, logits = target[:, 0], []
    for right in (*target[:, 1:].unbind(dim=1), None):
        guess, state = model.step(ids, memory, state)
        logits.append(guess)
        if right is not None:
            shown = torch.rand(len(ids), device=ids.device) < share
            ids = torch.where(shown, right, guess.detach().argmax(dim=-1))
    return torch.stack(logits, dim=1)
