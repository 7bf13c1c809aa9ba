"""Building a model within bounds, whatever sizes it is asked to have.

Sizes come from files and from flags, and anybody may write ``n_layers: 50000`` or ``d_model:
1048576`` there. Two ways to find out before the memory is gone: ``skeleton`` builds on torch's
device ``meta``, where a tensor has a shape and no numbers, which tells all sizes exactly, after a
second or two of imports; ``build_within`` builds the model itself and stops at the first tensor
that is more than there may be, which costs nothing.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import (
    register_module_buffer_registration_hook,
    register_module_parameter_registration_hook,
)
from torch.overrides import TorchFunctionMode

from regard.core.errors import ConfigError
from regard.models.presets import build
from regard.models.settings import ModelConfig

MOST_TENSORS = 10_000
"""Of any model; one of 500 layers has about as many."""
MOST_TABLES = 2**27
"""Bytes of tables that are computed when a model is built, such as sinusoids up to max_len."""
_NUMBER_BYTES = 4  # of a weight
_MOST_COMPUTED = MOST_TABLES // 8
"""Numbers of a step on the way to a table: float64, for half of it, several at a time."""
_MADE_OF_SIZES = (torch.empty, torch.zeros, torch.ones, torch.full, torch.rand, torch.randn)
_BEYOND_TORCH = (RuntimeError, TypeError, OverflowError, MemoryError)


def skeleton(config: ModelConfig) -> nn.Module:
    """The model of a configuration on the device ``meta``; a ConfigError where it cannot be."""
    try:
        with torch.device("meta"), _registering(_Budget(MOST_TENSORS, math.inf)):
            return build(config)
    except _BEYOND_TORCH as error:
        raise _beyond_torch(error) from None


def build_within(config: ModelConfig, *, most_tensors: int, most_numbers: int) -> nn.Module:
    """A fresh model; a ConfigError where it would have more tensors, or more numbers in them.

    Tables that it computes, which are no weights, may take ``MOST_TABLES`` bytes besides.
    """
    budget = _Budget(most_tensors, _NUMBER_BYTES * most_numbers + MOST_TABLES)
    try:
        with _SmallTensors(int(budget.n_bytes)), _registering(budget):
            return build(config)
    except _BEYOND_TORCH as error:
        raise _beyond_torch(error) from None


def _beyond_torch(error: Exception) -> ConfigError:
    reason = str(error).partition("\n")[0]  # what follows is a list of C++ functions
    return ConfigError(f"no machine can hold a model of these sizes ({reason})")


def table_bytes(model: nn.Module) -> int:
    """Bytes of the buffers that are no weights: tables which a model computes when it is built."""
    return sum(
        buffer.nbytes
        for module in model.modules()
        for name, buffer in module.named_buffers(recurse=False)
        if name in module._non_persistent_buffers_set
    )


class _Budget:
    """How many tensors, and bytes in them, may be registered yet."""

    def __init__(self, n_tensors: int, n_bytes: float) -> None:
        self.n_tensors, self.n_bytes = n_tensors, n_bytes
        self._most = n_tensors

    def __call__(self, tensor: Tensor) -> None:
        self.n_tensors -= 1
        self.n_bytes -= tensor.nbytes
        if self.n_tensors < 0:
            raise ConfigError(f"it would have more than {self._most:,} tensors")
        if self.n_bytes < 0:
            raise ConfigError("it would have more numbers than there may be")


@contextmanager
def _registering(seen: Callable[[Tensor], None]) -> Iterator[None]:
    """Inside the block, ``seen`` is called with every parameter and buffer of this thread."""
    here = threading.get_ident()

    def hook(_module: nn.Module, _name: str, tensor: Tensor | None) -> None:
        if tensor is not None and threading.get_ident() == here:
            seen(tensor)

    parameters = register_module_parameter_registration_hook(hook)
    buffers = register_module_buffer_registration_hook(hook)
    try:
        yield
    finally:
        parameters.remove()
        buffers.remove()


class _SmallTensors(TorchFunctionMode):
    """Inside the block, no tensor is made that takes more than ``most`` bytes."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        made, computed = _numbers_made(func, args, kwargs), _numbers_computed(args)
        if _NUMBER_BYTES * made > self._most or computed > _MOST_COMPUTED:
            raise ConfigError("one of its tensors would have more numbers than there may be")
        return func(*args, **kwargs)


def _numbers_made(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> float:
    """How many numbers a new tensor will have; 0 where none is asked for by its size."""
    if func in _MADE_OF_SIZES:
        sizes = kwargs.get("size", args)
        first = sizes[0] if len(sizes) and not isinstance(sizes[0], int) else sizes
        return math.prod(first if func is not torch.full else args[0])
    if func is torch.arange:
        begin, end, step = (0, *args, 1) if len(args) == 1 else (*args, 1)[:3]
        return abs((end - begin) / step)
    return 0


def _numbers_computed(args: tuple[Any, ...]) -> int:
    """How many numbers arithmetic on two tensors gives, the sides of one repeated; else 0."""
    tensors = [one for one in args if isinstance(one, Tensor)]
    if len(tensors) == 2:
        try:
            return math.prod(torch.broadcast_shapes(*(one.shape for one in tensors)))
        except RuntimeError:  # no arithmetic on one number each
            return 0
    return 0
