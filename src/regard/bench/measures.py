"""What is measured of a piece of work: seconds, memory, the matrix rate, where the time goes."""

from __future__ import annotations

import ctypes
import gc
import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

_RESET, _STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
WIDTH = {"cpu": 2048, "cuda": 8192}
TRIES, RATE_SECONDS = 5, 0.1
"""How often it is timed, and for how long each time."""

SHOWN = 3
"""Operators that are named."""


def seconds(work: Callable[[], object], device: torch.device, *, times: int = 1) -> float:
    """Seconds of ``times`` runs in a row, from an idle device to the end of its last kernel.

    Waiting for launches counts.
    """
    _wait(device)
    began = time.perf_counter()
    for _ in range(times):
        work()
    _wait(device)
    return time.perf_counter() - began


def _wait(device: torch.device) -> None:
    if device.type != "cpu":
        torch.accelerator.synchronize(device)


class Footprint:
    """Begins to watch when it is made; ``bytes`` is the growth since then, at its highest."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        release(device)
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
            self._before: int | None = torch.cuda.memory_allocated(device)
            return
        try:
            _RESET.write_text("5")  # Linux forgets its highest mark
            self._before = _status("VmRSS")
        except OSError:
            self._before = None

    @property
    def bytes(self) -> int | None:
        """On a GPU what torch allocated, else what the process held; None where nobody counts."""
        if self.device.type == "cuda":
            now: int | None = torch.cuda.max_memory_allocated(self.device)
        else:
            now = _status("VmHWM")
        return None if now is None or self._before is None else max(0, now - self._before)


def release(device: torch.device) -> None:
    """Give back what nobody uses any more, so that the next contender starts from the ground."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
    elif trim := getattr(ctypes.CDLL(None), "malloc_trim", None):  # glibc keeps what was freed
        trim(0)


def _status(name: str) -> int | None:
    try:
        lines = _STATUS.read_text().splitlines()
    except OSError:
        return None
    sizes = [line.split()[1] for line in lines if line.startswith(f"{name}:")]
    return int(sizes[0]) * 1024 if sizes else None


def matrix_rates(precisions: Sequence[str], device: torch.device) -> dict[str, float]:
    """Precision -> FLOP/s, the best of some tries on random numbers: a ceiling is no median."""
    n, rates = WIDTH.get(device.type, 4096), {}
    for name in precisions:
        a, b = (torch.randn(n, n, device=device).to(DTYPES[name]) for _ in range(2))
        multiply = partial(torch.mm, a, b, out=torch.empty_like(a))
        multiply()  # the first call chooses a kernel
        times = math.ceil(RATE_SECONDS / seconds(multiply, device))
        best = min(seconds(multiply, device, times=times) for _ in range(TRIES))
        rates[name] = times * 2 * n**3 / best
    return rates


def limit(work: Callable[[], object], device: torch.device) -> str:
    """The operators with the largest share of the time.

    On a GPU of the time it computes, and before that how much of the whole it only waits for work.
    """
    cuda = device.type == "cuda"
    took = seconds(work, device)
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if cuda else [])]
    with profile(activities=activities) as profiler:
        work()
        _wait(device)
    events: Any = profiler.key_averages()
    if cuda:  # of kernels
        on_gpu = [event for event in events if event.device_type.name == "CUDA"]
        times = {event.key: event.self_device_time_total for event in on_gpu}
    else:  # of operators, without what they call
        times = {event.key: event.self_cpu_time_total for event in events}
    total = sum(times.values()) or 1.0
    top = sorted(times, key=lambda name: times[name], reverse=True)[:SHOWN]
    shares = [f"{short(name)} {times[name] / total:.0%}" for name in top]
    if cuda:
        shares.insert(0, f"device idle {max(0.0, 1 - total / 1e6 / took):.0%}")
    return ", ".join(shares)


def short(name: str) -> str:
    """A kernel's name without its templates.

    >>> short("void at::native::vectorized_elementwise_kernel<4, ...>(int)"), short("aten::mm")
    ('vectorized_elementwise_kernel', 'mm')
    """
    bare = name.removeprefix("void ").split("<")[0].split("(")[0]
    return bare.split("::")[-1][:40]
