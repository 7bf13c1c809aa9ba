"""A benchmark from beginning to end: what there is, how fast it multiplies, who is how fast."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from regard.bench.contest import Plan
from regard.bench.measures import DTYPES, matrix_rates
from regard.bench.results import OURS, Bench, BenchRow
from regard.core.errors import ConfigError
from regard.core.registry import did_you_mean
from regard.tasks.opening import pick_device

PRECISIONS = ("fp32", "bf16", "int8")
PACKAGES = ("torch", "transformers", "x-transformers", "joeynmt", "ctranslate2")
DEFAULTS = {
    "cpu": {"size": "small", "vocab": 8000, "batch_tokens": 2048},
    "cuda": {"size": "base", "vocab": 32000, "batch_tokens": 24576},
}
"""What is trained where nothing is asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchRequest:
    """What every benchmark may be asked for."""

    device: str | None = None
    precision: str | None = None
    rounds: int = 5
    only: tuple[str, ...] = ()
    long: bool = False
    tell: Callable[[str], None] = lambda _line: None

    @property
    def precisions(self) -> tuple[str, ...]:
        """On a CPU both, as neither always wins; on a GPU bf16."""
        if self.precision is not None:
            if self.precision not in PRECISIONS:
                near = did_you_mean(self.precision, PRECISIONS)
                raise ConfigError(
                    f"there is no precision {self.precision!r}{near}; "
                    f"known: {', '.join(PRECISIONS)}"
                )
            return (self.precision,)
        return ("bf16",) if pick_device(self.device).type == "cuda" else ("bf16", "fp32")


def chosen(names: Sequence[str], packages: Mapping[str, str]) -> set[str]:
    """Who takes part: of us and the peers, each with its package, those asked for by ``--only``.

    Where none is named, all that are installed.
    """
    everybody = (OURS, *packages)
    there = {OURS, *(name for name, package in packages.items() if find_spec(package))}
    for name in names:
        if name not in everybody:
            raise ConfigError(
                f"there is no contender {name!r}{did_you_mean(name, everybody)}; "
                f"known: {', '.join(everybody)}"
            )
        if name not in there:
            raise ConfigError(
                f"{name} is not installed; get it by pip install {name}, or leave it out of --only"
            )
    return set(names) or there


def default(name: str, device: torch.device) -> Any:
    """A default of ``DEFAULTS``."""
    return DEFAULTS.get(device.type, DEFAULTS["cpu"])[name]


def measure(
    asked: BenchRequest,
    work: Callable[[Plan], Sequence[BenchRow]],
    facts: dict[str, Any] | None = None,
) -> Bench:
    """Rate the matrices, then let ``work`` find the rows."""
    device = pick_device(asked.device)
    asked.tell("measuring the matrix-multiply rate")
    rates = matrix_rates([name for name in asked.precisions if name in DTYPES], device)
    plan = Plan(device=device, rounds=asked.rounds, matrix_rates=rates, tell=asked.tell)
    rows = work(plan)
    return Bench(
        device=device_name(device),
        facts={**_here(), **(facts or {})},
        matrix_rates=rates,
        rows=tuple(rows),
    )


def device_name(device: torch.device) -> str:
    """What a reader would call it."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{_processor()}, {torch.get_num_threads()} threads"


def _processor() -> str:
    """Its name where Linux tells it, else its kind."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _here() -> dict[str, Any]:
    return {
        "python": platform.python_version(),
        "threads": torch.get_num_threads(),
        "versions": {name: _version(name) for name in PACKAGES if _version(name) is not None},
    }


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
