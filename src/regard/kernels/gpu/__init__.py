"""Kernels of our own, in Triton. No module here is imported before a GPU asks for it.

Kernels may begin before the last one has ended, where the chip can do that. A step of few rows is a
chain of kernels of two microseconds, and between two of them nothing happens for one more. A Hopper
chip may start the next kernel early: it reads what does not depend on the last one, its weights
say, and waits only then. Every kernel that is launched with ``early`` calls ``gdc_wait`` before it
reads what the last kernel writes, and before it writes anything; then ``gdc_launch_dependents``
lets the next one begin. So when a kernel begins, all but the last one before it have ended.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch

HAS_TRITON = find_spec("triton") is not None
HOPPER = 9


@cache
def triton_kernels(module: str) -> Any:
    """A module of this folder, imported when a GPU first asks for it."""
    return import_module(f"{__name__}.{module}")


def early(device: torch.device) -> dict[str, Any]:
    """What to launch a kernel with that knows the constant EARLY."""
    if device.type == "cuda" and _can(device):
        return {"EARLY": True, "launch_pdl": True}
    return {"EARLY": False}


@cache
def _can(device: torch.device) -> bool:
    return torch.cuda.get_device_capability(device)[0] >= HOPPER and torch.version.hip is None
