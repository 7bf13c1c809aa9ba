"""One change of the weights: gradients of some batches, clipped, handed to Adam.

An update is a function of whole micro-batches and their token count alone: a wrapper for several
devices has to sum that count and the gradients, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, Self

import torch
from torch import Tensor, nn

from regard.training.groups import freeze, parameter_groups
from regard.training.precision import autocast
from regard.training.settings import TrainSettings


class AnyBatch(Protocol):
    """What is learned from at once. Only the objective knows what is in it."""

    @property
    def numbers(self) -> Sequence[int]:
        """Which examples these are."""
        ...

    @property
    def n_target_tokens(self) -> int:
        """What the loss is averaged over: target tokens, or whatever has a loss of its own."""
        ...

    def to(self, device: torch.device) -> Self:
        """The same batch elsewhere."""
        ...


class LossOf(Protocol):
    """What is made small."""

    def __call__(self, model: Any, batch: Any, /) -> Tensor:
        """The loss of a batch, summed over its target tokens."""
        ...


class Updated(NamedTuple):
    """What an update tells; numbers that may still be on their way."""

    loss: Tensor
    """Summed over all target tokens."""
    norm: Tensor
    """Of the gradient a token, before clipping."""


Tell = Callable[[Updated], object]


def nobody(_updated: Updated) -> None:
    """Who does not want to know."""


class Update:
    """Learns from micro-batches as if they were one batch."""

    def __init__(
        self, model: nn.Module, loss_of: LossOf, settings: TrainSettings, device: torch.device
    ) -> None:
        self.model, self.loss_of, self.settings, self.device = model, loss_of, settings, device
        on_gpu = device.type == "cuda"
        freeze(model, settings)
        groups = parameter_groups(model, settings)
        for group in groups:  # each its own number, for it is changed in place
            group["lr"] = torch.zeros((), device=device) if on_gpu else 0.0
        self.optimiser = torch.optim.AdamW(
            groups,
            betas=(0.9, 0.98),
            eps=1e-9,
            weight_decay=0.0,  # groups say their own
            fused=True,
            capturable=on_gpu,  # nothing it needs to know is read by the host
        )

    def __call__(self, batches: Sequence[AnyBatch], lr: float, tell: Tell = nobody) -> None:
        """Change the weights once. Who is told may refuse: the weights then stay as they are."""
        n_tokens = sum(batch.n_target_tokens for batch in batches)
        total = torch.zeros((), device=self.device)
        for batch in batches:
            total += self.backward(batch.to(self.device), n_tokens)
        tell(Updated(total, self.clip()))
        self.set_lr(lr)
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)

    def backward(self, batch: AnyBatch, n_tokens: int | Tensor) -> Tensor:
        """Add a batch's gradients to the others; its loss."""
        with autocast(self.device, self.settings.precision):
            loss = self.loss_of(self.model, batch)
        (loss / n_tokens).backward()
        return loss.detach()

    def clip(self) -> Tensor:
        """Shorten the gradient to what is allowed; the norm it had."""
        return nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.clip)

    def set_lr(self, lr: float) -> None:
        """For the steps to come. On a GPU the number lies where the kernels find it."""
        for group in self.optimiser.param_groups:
            own = lr * group["scale"]
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(own)
            else:
                group["lr"] = own
