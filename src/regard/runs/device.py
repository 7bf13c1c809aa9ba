"""Where to compute."""

from __future__ import annotations

import torch

from regard.core.errors import ConfigError


def pick_device(name: str | None = None) -> torch.device:
    """The named device, or a GPU where there is one, or the CPU."""
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name.split(":")[0] not in ("cpu", "cuda", "mps"):
        raise ConfigError(f"device {name!r} is none of cpu, cuda, cuda:1, …, mps")
    if name == "mps" and not torch.backends.mps.is_available():
        raise ConfigError("device 'mps' cannot be used here: there is no such GPU")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).split("\n")[0].split(". ")[0]
        raise ConfigError(f"device {name!r} cannot be used here: {reason}") from None
    return device
