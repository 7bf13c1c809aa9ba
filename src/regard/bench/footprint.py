"""The most memory that one contender held, where others live beside it."""

from __future__ import annotations

import ctypes
import gc
from pathlib import Path

import torch

_RESET, _STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")


class Footprint:
    """Begins to watch when it is made; ``bytes`` is the growth since then, at its highest."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        release(device)
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
            self._before: int | None = torch.cuda.memory_allocated(device)
        else:
            self._before = _reset_peak()

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
        return
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc keeps what was freed
    if trim is not None:
        trim(0)


def _reset_peak() -> int | None:
    """Linux forgets its highest mark on request; -> what the process holds now."""
    try:
        _RESET.write_text("5")
    except OSError:
        return None
    return _status("VmRSS")


def _status(name: str) -> int | None:
    try:
        lines = _STATUS.read_text().splitlines()
    except OSError:
        return None
    sizes = [line.split()[1] for line in lines if line.startswith(f"{name}:")]
    return int(sizes[0]) * 1024 if sizes else None
