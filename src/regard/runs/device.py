"""Where to compute."""

from __future__ import annotations

import torch

from regard.core.errors import ConfigError


def pick_device(name: str | None = None) -> torch.device:
    """The named device, or a GPU where there is one, or the CPU."""
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        if device.type not in ("cpu", "cuda", "mps"):
            raise RuntimeError("expected cpu, cuda or mps")
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).split("\n")[0]
        raise ConfigError(f"device {name!r} cannot be used here: {reason}") from None
    return device
