"""How fast this device multiplies large matrices: the ceiling that shares are taken of."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from regard.bench.clock import seconds

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
WIDTH = {"cpu": 2048, "cuda": 8192}
TRIES, LEAST_SECONDS = 5, 0.1
"""How often it is timed, and for how long each time."""


def matrix_rates(precisions: Sequence[str], device: torch.device) -> dict[str, float]:
    """Precision -> FLOP/s, the best of some tries on random numbers: a ceiling is no median."""
    return {name: _rate(DTYPES[name], device) for name in precisions}


def _rate(dtype: torch.dtype, device: torch.device) -> float:
    n = WIDTH.get(device.type, 4096)
    a, b = (torch.randn(n, n, device=device).to(dtype) for _ in range(2))
    out = torch.empty_like(a)

    def multiply() -> None:
        torch.mm(a, b, out=out)

    multiply()  # the first call chooses a kernel
    times = math.ceil(LEAST_SECONDS / seconds(multiply, device))
    best = min(seconds(multiply, device, times=times) for _ in range(TRIES))
    return times * 2 * n**3 / best
