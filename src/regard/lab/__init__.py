"""The lectures' claims as experiments: each a file in ``claims``, and a function here.

    from regard import lab

    lab.permutation()          # a notebook shows the verdict, the numbers and the picture

The first line of a file's docstring is its claim. Nothing is imported before it is run.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from importlib import import_module
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from regard.core.errors import ConfigError
from regard.core.registry import did_you_mean

if TYPE_CHECKING:
    from regard.lab.result import Result

NAMES = (
    "walkthrough", "rows", "scaling", "permutation", "positions", "extrapolation", "relative",
    "codes", "shift", "learned", "slips", "vocabulary", "embedding", "vectorise",
    "loop", "memory", "future", "linear", "heads", "itself", "parameterless", "tastes",
    "context", "graph", "bottleneck", "gradients", "reach", "recall", "recurrence", "forcing",
    "norm", "hard", "alignment", "depth", "convolution", "pixels",
)  # fmt: skip
"""In the order in which a course would show them."""
MINUTES = 4
"""What all of them took on two CPU cores: 3 min 33 s (benchmarks/RESULTS.md)."""


def claim(name: str) -> str:
    """What an experiment puts to the test, in one line; read from its file, which is not run."""
    source = (files("regard.lab.claims") / f"{_known(name)}.py").read_text(encoding="utf-8")
    return (ast.get_docstring(ast.parse(source)) or "").split("\n", 1)[0]


def experiment(name: str) -> Callable[..., Result]:
    """The function that runs an experiment."""
    found: Callable[..., Result] = getattr(import_module(f"regard.lab.claims.{_known(name)}"), name)
    return found


def _known(name: str) -> str:
    if name not in NAMES:
        raise ConfigError(
            f"no experiment {name!r}{did_you_mean(name, NAMES)}; known: {', '.join(NAMES)}"
        )
    return name


def __getattr__(name: str) -> Any:
    if name not in NAMES:
        raise AttributeError(f"module 'regard.lab' has no attribute {name!r}")
    return experiment(name)


def __dir__() -> list[str]:
    return sorted([*globals(), *NAMES])
