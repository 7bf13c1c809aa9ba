"""In which numbers sums are made."""

from __future__ import annotations

import torch


def wide(dtype: torch.dtype) -> torch.dtype:
    """At least float32.

    >>> wide(torch.bfloat16), wide(torch.float64)
    (torch.float32, torch.float64)
    """
    return torch.promote_types(dtype, torch.float32)
