"""Regard: attention and Transformers, trainable, fast, and open to look at.

Public names load when they are first used, so that ``import regard`` is instant and needs torch
only where something computes.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.core.errors import (
        CheckpointError,
        ConfigError,
        DataError,
        RegardError,
        ShapeError,
        TrainingError,
    )
    from regard.functional.masks import Block, Near
    from regard.functional.positions import Alibi
    from regard.inspection.capture import watch
    from regard.kernels.attention import attention
    from regard.layers.attention import MultiHeadAttention
    from regard.layers.score import Score
    from regard.runs.doors import compare, train
    from regard.tasks.any_model import look
    from regard.tasks.opening import load
    from regard.tasks.translator import Run

__version__ = "0.1.0"

_HOMES = {
    "Alibi": "regard.functional.positions",
    "Block": "regard.functional.masks",
    "Near": "regard.functional.masks",
    "attention": "regard.kernels.attention",
    "CheckpointError": "regard.core.errors",
    "compare": "regard.runs.doors",
    "ConfigError": "regard.core.errors",
    "DataError": "regard.core.errors",
    "load": "regard.tasks.opening",
    "look": "regard.tasks.any_model",
    "MultiHeadAttention": "regard.layers.attention",
    "RegardError": "regard.core.errors",
    "Run": "regard.tasks.translator",
    "Score": "regard.layers.score",
    "ShapeError": "regard.core.errors",
    "TrainingError": "regard.core.errors",
    "train": "regard.runs.doors",
    "watch": "regard.inspection.capture",
}

__all__ = [
    "Alibi",
    "Block",
    "CheckpointError",
    "ConfigError",
    "DataError",
    "MultiHeadAttention",
    "Near",
    "RegardError",
    "Run",
    "Score",
    "ShapeError",
    "TrainingError",
    "attention",
    "compare",
    "load",
    "look",
    "train",
    "watch",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'regard' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
