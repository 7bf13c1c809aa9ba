"""Seconds that a piece of work takes, with the device's own clock where it has one."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch


def seconds(work: Callable[[], object], device: torch.device, *, times: int = 1) -> float:
    """Seconds of ``times`` runs in a row.

    On CUDA between two events of the stream: the first is passed when the device is idle, the
    second when the last kernel is done and the host has come back, so that waiting for launches
    counts. Elsewhere by the wall clock.
    """
    if device.type == "cuda":
        return _by_events(work, device, times)
    _wait(device)
    began = time.perf_counter()
    for _ in range(times):
        work()
    _wait(device)
    return time.perf_counter() - began


def _by_events(work: Callable[[], object], device: torch.device, times: int) -> float:
    with torch.cuda.device(device):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        begin.record()
        for _ in range(times):
            work()
        end.record()
        torch.cuda.synchronize()
        return begin.elapsed_time(end) / 1000


def _wait(device: torch.device) -> None:
    if device.type != "cpu":
        torch.accelerator.synchronize()
