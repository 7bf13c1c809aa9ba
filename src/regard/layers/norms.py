"""Norms by name."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from regard.core.registry import Registry

NORMS: Registry[Callable[..., nn.Module]] = Registry("norm")
NORMS.add("layer")(nn.LayerNorm)
NORMS.add("rms")(nn.RMSNorm)


def make_norm(kind: str, width: int, *, eps: float = 1e-5) -> nn.Module:
    """``layer`` takes the mean away and divides by the deviation; ``rms`` only divides."""
    return NORMS[kind](width, eps=eps)
