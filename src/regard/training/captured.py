"""The whole update as one graph of kernels: recorded once, then started by a single call.

A small model on a fast GPU spends its time waiting for Python to name the next kernel. Packed
batches all have the same shapes, so the kernels of one update are those of every other; only the
numbers in their inputs change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import torch
from torch import Tensor

from regard.training.update import AnyBatch, Tell, Update, Updated, nobody

FIRST_STEPS = 3
"""Steps that run kernel by kernel: compilers and libraries settle before anything is recorded."""


class CapturedUpdate(Update):
    """An ``Update`` of one micro-batch a step, recorded after the first steps.

    Who is told of it is told afterwards: to ask in between, the host would have to wait.
    """

    _graph: torch.cuda.CUDAGraph | None = None
    _n_steps = 0

    def __call__(self, batches: Sequence[AnyBatch], lr: float, tell: Tell = nobody) -> None:
        """As ``Update``."""
        self._n_steps += 1
        if self._n_steps <= FIRST_STEPS:
            super().__call__(batches, lr, tell)
            return
        (batch,) = batches
        if self._graph is None:
            self._record(batch)
        for here, there in zip(_tensors(self._batch), _tensors(batch), strict=True):
            here.copy_(there, non_blocking=True)
        self._n_tokens.fill_(batch.n_target_tokens)
        self.set_lr(lr)
        assert self._graph is not None
        self._graph.replay()
        tell(Updated(self._updated.loss.clone(), self._updated.norm.clone()))

    def _record(self, batch: AnyBatch) -> None:
        """Nothing is computed here; gradients come to lie in memory that the graph owns."""
        self._batch = batch.to(self.device)
        self._n_tokens = torch.zeros((), device=self.device)
        self._graph = torch.cuda.CUDAGraph()
        # Other threads go on meanwhile: the one that makes batches pins memory.
        with torch.cuda.graph(self._graph, capture_error_mode="thread_local"):
            loss = self.backward(self._batch, self._n_tokens)
            self._updated = Updated(loss, self.clip())
            self.optimiser.step()


def _tensors(batch: Any) -> list[Tensor]:
    """All tensors of a batch, in the order of its fields."""
    if isinstance(batch, Tensor):
        return [batch]
    if isinstance(batch, Mapping):
        return [x for value in batch.values() for x in _tensors(value)]
    if not is_dataclass(batch):
        return []
    return [x for field in fields(batch) for x in _tensors(getattr(batch, field.name))]
