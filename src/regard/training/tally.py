"""The numbers of the steps since the last line of metrics."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor

from regard.core.errors import TrainingError
from regard.training.update import AnyBatch


class Summary(NamedTuple):
    """What a line of metrics tells."""

    loss: float
    """A target token."""
    grad_norm: float
    """Mean over the steps, before clipping."""
    tokens_per_second: float


class _Unread(NamedTuple):
    """A step whose numbers are still on the device."""

    step: int
    batches: Sequence[AnyBatch]
    loss: Tensor
    n_tokens: int
    grad_norm: Tensor


class NotFiniteError(TrainingError):
    """A number that must be finite is not; ``numbers`` are the examples of its batch."""

    def __init__(self, what: str, value: float, one: _Unread) -> None:
        self.numbers = [number for batch in one.batches for number in batch.numbers]
        super().__init__(
            f"the {what} became {value} at step {one.step}; nothing of it was saved: lower "
            "train.lr, or look at the batch, and start again or from the last checkpoint"
        )


class Tally:
    """Sums up steps. Numbers are read late, so that a GPU need not wait for each."""

    def __init__(self) -> None:
        self._loss = 0.0
        self._grad_norm = 0.0
        self._n_tokens = 0
        self._n_steps = 0
        self._unread: list[_Unread] = []
        self.restart_clock()

    def restart_clock(self) -> None:
        """Leave out of the speed what was no training."""
        self._began = time.perf_counter()
        self._clock_tokens = 0

    def add(
        self, step: int, batches: Sequence[AnyBatch], loss: Tensor, n_tokens: int, grad_norm: Tensor
    ) -> None:
        """Note a step; ``loss`` is summed over its tokens."""
        self._unread.append(_Unread(step, batches, loss, n_tokens, grad_norm))
        self._clock_tokens += n_tokens

    def settle(self) -> None:
        """Read the numbers of the steps so far; what is not finite ends the training."""
        for one in self._unread:
            loss, grad_norm = one.loss.item(), one.grad_norm.item()
            if not math.isfinite(loss):
                raise NotFiniteError("loss", loss, one)
            if not math.isfinite(grad_norm):
                raise NotFiniteError("gradient", grad_norm, one)
            self._loss += loss
            self._grad_norm += grad_norm
            self._n_tokens += one.n_tokens
            self._n_steps += 1
        self._unread.clear()

    def summary(self) -> Summary:
        """The steps so far."""
        self.settle()
        seconds = time.perf_counter() - self._began
        return Summary(
            self._loss / max(1, self._n_tokens),
            self._grad_norm / max(1, self._n_steps),
            self._clock_tokens / seconds,
        )
