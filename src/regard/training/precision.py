"""Which numbers the products are made of."""

from __future__ import annotations

from contextlib import AbstractContextManager

import torch

from regard.core.errors import ConfigError


def autocast(device: torch.device, precision: str) -> AbstractContextManager[None]:
    """Products in bf16 where that is asked for, or where ``auto`` finds a GPU that has it."""
    return torch.autocast(device.type, torch.bfloat16, enabled=uses_bf16(device, precision))


def uses_bf16(device: torch.device, precision: str) -> bool:
    """What ``fp32``, ``bf16`` or ``auto`` means on a device."""
    has_it = device.type != "cuda" or torch.cuda.is_bf16_supported()
    if precision == "bf16" and not has_it:
        raise ConfigError("train.precision=bf16, but this GPU has no bf16; use fp32")
    return precision == "bf16" or (precision == "auto" and device.type == "cuda" and has_it)
