"""CUDA graphs of work that stays on the device, and copies to the host that hold up nobody."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor


class Graphed:
    """Does ``work``; on a GPU it is captured as a CUDA graph the first time, elsewhere just done.

    The work must not wait for the device, and all it leaves behind are changes to the tensors
    named in ``changes``: trying it out before the capture is undone in them.
    """

    def __init__(
        self, work: Callable[[], None], *, changes: Sequence[Tensor], pool: Any = None
    ) -> None:
        self.work = work
        self.changes = changes
        self.pool = pool
        self.graph: torch.cuda.CUDAGraph | None = None

    def __call__(self) -> None:
        """Do it once."""
        if not self.changes[0].is_cuda:
            self.work()
            return
        if self.graph is None:
            self._try_out()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=self.pool, capture_error_mode="thread_local"):
                self.work()
            self.graph = graph
        self.graph.replay()

    def _try_out(self) -> None:
        """Compile and warm up whatever needs it, aside, and undo what it did."""
        kept = [tensor.clone() for tensor in self.changes]
        here, aside = torch.cuda.current_stream(), torch.cuda.Stream()
        aside.wait_stream(here)
        with torch.cuda.stream(aside):
            for _ in range(2):
                self.work()
        here.wait_stream(aside)
        for tensor, before in zip(self.changes, kept, strict=True):
            tensor.copy_(before)


def shared_pool(device: torch.device) -> Any:
    """Memory for CUDA graphs that never run at once; None where nothing is captured."""
    return torch.cuda.graph_pool_handle() if device.type == "cuda" else None


class HostCopy:
    """What a tensor held a moment ago, fetched without holding up the device."""

    def __init__(self, like: Tensor) -> None:
        self.event = torch.cuda.Event() if like.is_cuda else None
        self.copy = torch.empty(like.shape, dtype=like.dtype, pin_memory=like.is_cuda)
        self.n = 0

    def post(self, tensor: Tensor) -> None:
        """Ask for the tensor (n,) as it will be when the device comes here."""
        self.n = len(tensor)
        self.copy[: self.n].copy_(tensor, non_blocking=True)
        if self.event is not None:
            self.event.record()

    def read(self) -> list[int]:
        """What it was, once the device has come there."""
        if self.event is not None:
            self.event.synchronize()
        return self.copy[: self.n].tolist()
