"""A running average of the weights: steadier than the last ones, at no cost when translating."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class RunningAverage:
    """average ← d·average + (1-d)·weights, with a smaller d at first: min(decay, (1+n)/(10+n))."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.n_updates = 0
        self.weights = {name: p.detach().clone() for name, p in model.named_parameters()}

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        """Take in the weights of one more step."""
        self.n_updates += 1
        decay = min(self.decay, (1 + self.n_updates) / (10 + self.n_updates))
        names, parameters = zip(*model.named_parameters(), strict=True)
        torch._foreach_lerp_([self.weights[name] for name in names], parameters, 1 - decay)

    def restore(self, weights: Mapping[str, Tensor], n_updates: int) -> None:
        """Go on from a checkpoint."""
        self.n_updates = n_updates
        for name, tensor in self.weights.items():
            tensor.copy_(weights[name])

    @contextmanager
    def in_place_of(self, model: nn.Module) -> Iterator[None]:
        """Inside the block the model has the averaged weights."""
        parameters = dict(model.named_parameters())
        kept = {name: p.data for name, p in parameters.items()}
        try:
            for name, parameter in parameters.items():
                parameter.data = self.weights[name]
            yield
        finally:
            for name, parameter in parameters.items():
                parameter.data = kept[name]
