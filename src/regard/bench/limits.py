"""What most of the time goes to, by torch's profiler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from regard.bench.clock import seconds

SHOWN = 3
"""Operators that are named."""


def limit(work: Callable[[], object], device: torch.device) -> str:
    """The operators with the largest share of the time.

    On a GPU of the time it computes, and before that how much of the whole it only waits for work.
    """
    cuda = device.type == "cuda"
    took = seconds(work, device)
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if cuda else [])]
    with profile(activities=activities) as profiler:
        work()
        if cuda:
            torch.cuda.synchronize(device)
    times = _times(profiler.key_averages(), cuda)
    total = sum(times.values()) or 1.0
    top = sorted(times, key=lambda name: times[name], reverse=True)[:SHOWN]
    shares = [f"{short(name)} {times[name] / total:.0%}" for name in top]
    if cuda:
        shares.insert(0, f"device idle {max(0.0, 1 - total / 1e6 / took):.0%}")
    return ", ".join(shares)


def _times(events: Any, cuda: bool) -> dict[str, float]:
    """Microseconds by name: of kernels on a GPU, of operators without what they call elsewhere."""
    if not cuda:
        return {event.key: event.self_cpu_time_total for event in events}
    kernels = [event for event in events if event.device_type.name == "CUDA"]
    return {event.key: event.self_device_time_total for event in kernels}


def short(name: str) -> str:
    """A kernel's name without its templates.

    >>> short("void at::native::vectorized_elementwise_kernel<4, ...>(int)"), short("aten::mm")
    ('vectorized_elementwise_kernel', 'mm')
    """
    bare = name.removeprefix("void ").split("<")[0].split("(")[0]
    return bare.split("::")[-1][:40]
