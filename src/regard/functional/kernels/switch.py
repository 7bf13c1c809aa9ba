"""A switch for comparing: inside ``reference_only`` the readable kernel does all the work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch

_reference_only: ContextVar[bool] = ContextVar("reference_only", default=False)


@contextmanager
def reference_only() -> Iterator[None]:
    """Inside the block the readable kernel does all the work: for counting and for comparing."""
    token = _reference_only.set(True)
    try:
        yield
    finally:
        _reference_only.reset(token)


def may_fuse() -> bool:
    """Whether fused kernels are allowed just now; in compiled code, always."""
    return torch.compiler.is_compiling() or not _reference_only.get()
