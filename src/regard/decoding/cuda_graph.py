"""Work on tensors that stay where they are: recorded once as a CUDA graph, then played again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor


class Recorded:
    """Does ``work``; on a GPU it is recorded the first time, on other devices just done.

    The work must not wait for the device, and all it leaves behind are changes to the tensors
    named in ``changes``: trying it out before recording is undone in them.
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
            self.graph = self._record()
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

    def _record(self) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool, capture_error_mode="thread_local"):
            self.work()
        return graph


def shared_pool(device: torch.device) -> Any:
    """Memory that recordings may share which never run at once; None where nothing is recorded."""
    return torch.cuda.graph_pool_handle() if device.type == "cuda" else None
