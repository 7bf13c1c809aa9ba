"""Memory: how much there is, how much was used, and what to say when there is too little."""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from regard.core.errors import ConfigError
from regard.models.base import ModelConfig
from regard.models.presets import build, n_parameters

_TRAINING_BYTES = 16
"""A parameter, its gradient and Adam's two averages, in float32."""


def check_memory(config: ModelConfig, device: torch.device) -> None:
    """Refuse a model that cannot be trained here, before a byte of it is allocated."""
    try:
        with torch.device("meta"):
            count = n_parameters(build(config))
    except (RuntimeError, OverflowError) as error:  # more numbers than an index can count
        reason = str(error).split("\n")[0]
        raise ConfigError(f"no machine can hold this model ({reason}); {_REMEDY}") from None
    wanted, there = _TRAINING_BYTES * count, _memory(device)
    if wanted > there:
        raise ConfigError(
            f"the model has {count:,} parameters; to train them takes {_gib(wanted)}, but "
            f"{device} has {_gib(there)}; {_REMEDY}"
        )


@contextmanager
def memory_told(device: torch.device) -> Iterator[None]:
    """Inside the block, running out of memory is an error with a remedy."""
    try:
        yield
    except RuntimeError as error:
        if not isinstance(error, torch.OutOfMemoryError) and "allocate memory" not in str(error):
            raise
        raise ConfigError(
            f"{device} has too little memory for this model with such batches; lower "
            f"train.batch_tokens (and raise train.accumulate), or {_REMEDY}"
        ) from error


def peak_memory(device: torch.device) -> int:
    """The most memory held so far, in bytes: the device's on a GPU, else the process's."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    unit = 1 if sys.platform == "darwin" else 1024  # kilobytes everywhere else
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


_REMEDY = "choose a smaller model.size, d_model or n_layers"


def _memory(device: torch.device) -> int:
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[1]
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _gib(n_bytes: int) -> str:
    return f"{n_bytes / 2**30:,.1f} GiB"
