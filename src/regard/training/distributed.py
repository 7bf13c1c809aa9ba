"""What a process must know of the others that train the same model.

Which part of the data is its own, how sums and counts are added up, when all stop, and who writes
files. With one process nothing is communicated and nothing is copied.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from regard.core.signals import signals_to


@dataclass(frozen=True, slots=True)
class Ranks:
    """The processes of a training, seen from one of them."""

    rank: int = 0
    """The number of this process; the stream's part is ``stream.shard(rank, n)``."""
    n: int = 1

    @classmethod
    def current(cls) -> Ranks:
        """Those of torch's process group; one alone where none was started."""
        if dist.is_available() and dist.is_initialized():
            return cls(dist.get_rank(), dist.get_world_size())
        return cls()

    @property
    def is_writer(self) -> bool:
        """Whether this process writes checkpoints and metrics: one of all does."""
        return self.rank == 0

    def add(self, numbers: Iterable[float], device: torch.device) -> list[float]:
        """Each number summed over all processes."""
        numbers = [*numbers]
        if self.n == 1:
            return numbers
        total = torch.tensor(numbers, dtype=torch.float64, device=device)
        dist.all_reduce(total)
        return total.tolist()

    def add_gradients(self, model: nn.Module) -> None:
        """Gradients become their sum over all processes."""
        if self.n == 1:
            return
        for parameter in model.parameters():
            if parameter.requires_grad:
                if parameter.grad is None:
                    parameter.grad = torch.zeros_like(parameter)
                dist.all_reduce(parameter.grad)

    def agree(self, wish: int, device: torch.device) -> int:
        """The largest wish of all: who wants to stop says a number above 0."""
        if self.n == 1:
            return wish
        largest = torch.tensor(wish, device=device)
        dist.all_reduce(largest, op=dist.ReduceOp.MAX)
        return int(largest.item())

    def agree_on_signal(
        self, received: signal.Signals | None, device: torch.device
    ) -> signal.Signals | None:
        """The signal that one of the processes received, if any did."""
        number = self.agree(int(received or 0), device)
        return signal.Signals(number) if number else None


def unwrapped(model: Any) -> Any:
    """The model itself, where DDP or the like stands around it."""
    return getattr(model, "module", model)


@dataclass(slots=True)
class StopRequest:
    """Which signal asked this process to stop, if any."""

    signal: signal.Signals | None = None


@contextmanager
def stop_on_signals() -> Iterator[StopRequest]:
    """Inside the block signals that end a program leave a request; a second one acts at once."""
    request = StopRequest()

    def note(number: int, _frame: FrameType | None) -> None:
        request.signal = signal.Signals(number)

    with signals_to(note, once=True):
        yield request
