"""Contenders at the same work, round after round in turn, so that a slow minute hits them all."""

from __future__ import annotations

import math
import os
import platform
import statistics
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any

import torch

from regard.bench.measures import DTYPES, Footprint, matrix_rates, release, seconds
from regard.bench.results import LEFT_OUT, OURS, Bench, BenchRow
from regard.core.errors import ConfigError
from regard.core.registry import did_you_mean
from regard.tasks.opening import device_name, pick_device

PRECISIONS = ("fp32", "bf16", "int8")
PACKAGES = ("torch", "transformers", "x-transformers", "joeynmt", "ctranslate2", "timm")
LEAST_SECONDS = 0.2
"""A round lasts at least so long: shorter work is repeated within it."""
MOST_REPEATS = 1000
MOST_SECONDS = 60.0
"""Work that would take longer than this once is not begun."""


@dataclass(frozen=True, slots=True)
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
        if self.precision is None:
            return ("bf16",) if pick_device(self.device).type == "cuda" else ("bf16", "fp32")
        if self.precision not in PRECISIONS:
            near = did_you_mean(self.precision, PRECISIONS)
            known = ", ".join(PRECISIONS)
            raise ConfigError(f"there is no precision {self.precision!r}{near}; known: {known}")
        return (self.precision,)

    def chosen(self, packages: Mapping[str, str]) -> set[str]:
        """Who takes part: of us and the peers, each with its package, those of ``only``.

        Where none is named, all that are installed.
        """
        everybody = (OURS, *packages)
        there = {OURS, *(name for name, package in packages.items() if find_spec(package))}
        for name in self.only:
            if name not in everybody:
                hint = f"{did_you_mean(name, everybody)}; known: {', '.join(everybody)}"
                raise ConfigError(f"there is no contender {name!r}{hint}")
            if name not in there:
                how = f"get it by pip install {name}, or leave it out of --only"
                raise ConfigError(f"{name} is not installed; {how}")
        return set(self.only) or there

    def plan(self) -> Plan:
        """How to measure; the rate at which the device multiplies matrices is measured here."""
        device = pick_device(self.device)
        self.tell("measuring the matrix-multiply rate")
        rates = matrix_rates([name for name in self.precisions if name in DTYPES], device)
        return Plan(device=device, rounds=self.rounds, matrix_rates=rates, tell=self.tell)


@dataclass(frozen=True, slots=True)
class Work:
    """A contender that is ready."""

    run: Callable[[], float]
    """Does the work once; returns how much that was, in units (tokens, FLOPs)."""
    n_parameters: int | None = None
    flops: float | None = None
    """Useful FLOPs in one unit, where it is another model than the task has in mind."""


@dataclass(frozen=True, slots=True)
class Contender:
    """Who will work, and how to get it ready."""

    who: str
    how: str
    precision: str
    start: Callable[[], Work]
    """Builds the model, its batches and its kernels; nothing of this is timed."""

    @property
    def label(self) -> str:
        """For a line of progress."""
        return f"{self.who}{f' ({self.how})' if self.how else ''}, {self.precision}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How to measure, whatever the work."""

    device: torch.device
    rounds: int = 5
    matrix_rates: Mapping[str, float] = field(default_factory=dict)
    tell: Callable[[str], None] = lambda _line: None

    def bench(self, rows: Iterable[BenchRow], facts: Mapping[str, Any]) -> Bench:
        """What was found here."""
        versions = {name: found for name in PACKAGES if (found := _version(name))}
        here = {"python": platform.python_version(), "threads": torch.get_num_threads()}
        facts = {**here, "versions": versions, **facts}
        rates = self.matrix_rates
        return Bench(
            device=device_name(self.device), facts=facts, matrix_rates=rates, rows=tuple(rows)
        )


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """The work that contenders are compared at."""

    what: str
    unit: str
    unit_size: float = 1.0
    """How many of what ``Work.run`` counts make one unit: 1e12 for TFLOP/s."""
    flops: float = 0.0
    """Useful FLOPs in one of what ``Work.run`` counts; 0 where no share is wanted."""
    by: str | None = None
    at: float | None = None

    def row(self, contender: Contender, **found: Any) -> BenchRow:
        """A row of this task."""
        known: dict[str, Any] = {name: getattr(self, name) for name in ("what", "unit", "by", "at")}
        known |= {name: getattr(contender, name) for name in ("who", "how", "precision")}
        return BenchRow(**known, **found)


@dataclass(slots=True)
class _Runner:
    """A contender on the track, and what is known of it so far."""

    contender: Contender
    device: torch.device
    work: Work | None = None
    memory: int | None = None
    once: float = 0.0
    """Seconds of one run, when it had warmed up."""
    speeds: list[float] = field(default_factory=list)
    error: str | None = None

    def enter(self) -> None:
        """Get ready and warm up."""
        watch = Footprint(self.device)
        self.work = self.contender.start()
        self.work.run()  # compiles, chooses kernels, fills caches
        self.once = seconds(self.work.run, self.device)
        self.memory = watch.bytes

    def round(self) -> None:
        """Work for long enough to be timed."""
        assert self.work is not None
        done: list[float] = []
        work = self.work
        repeats = min(MOST_REPEATS, math.ceil(LEAST_SECONDS / max(self.once, 1e-9)))
        took = seconds(lambda: done.append(work.run()), self.device, times=repeats)
        self.speeds.append(sum(done) / took)

    def guarded(self, act: Callable[[], None], tell: Callable[[str], None]) -> None:
        """Whatever a contender dies of is its result, not the end of the run."""
        try:
            with warnings.catch_warnings():
                if self.contender.who != OURS:  # what a peer warns of is not the reader's concern
                    warnings.simplefilter("ignore")
                act()
        except Exception as error:
            self.error = why(error)
        if self.error is not None:  # no traceback holds its tensors any more
            self.work = None
            tell(f"{self.contender.label} failed: {self.error}")
            release(self.device)

    def row(self, task: Workload, rates: Mapping[str, float]) -> BenchRow:
        """What was found."""
        if self.work is None:
            return task.row(self.contender, error=self.error)
        value, rate = statistics.median(self.speeds), rates.get(self.contender.precision)
        flops = task.flops if self.work.flops is None else self.work.flops
        return task.row(
            self.contender,
            value=value / task.unit_size,
            low=min(self.speeds) / task.unit_size,
            high=max(self.speeds) / task.unit_size,
            seconds=self.once,
            share=value * flops / rate if rate and flops else None,
            memory_bytes=self.memory,
            parameters=self.work.n_parameters,
        )


def compete(task: Workload, contenders: Sequence[Contender], plan: Plan) -> list[BenchRow]:
    """One row a contender, in their order; one that fails is a row that says why."""
    if "torch._dynamo" in sys.modules:
        torch.compiler.reset()  # it gives up on code that was compiled for too many shapes before
    runners = [_Runner(contender, plan.device) for contender in contenders]
    for one in runners:
        plan.tell(f"{task.what}: {one.contender.label}")
        one.guarded(one.enter, plan.tell)
    for _ in range(plan.rounds):
        for one in runners:
            if one.error is None:
                one.guarded(one.round, plan.tell)
    return [one.row(task, plan.matrix_rates) for one in runners]


def why(error: Exception) -> str:
    """The reason in one line."""
    if isinstance(error, torch.OutOfMemoryError) or "allocate memory" in str(error):
        return "out of memory"
    first = str(error).strip().split("\n")[0]
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def grow(points: Iterable[tuple[Workload, list[Contender]]], plan: Plan) -> list[BenchRow]:
    """All points in turn, each larger than the one before.

    A contender that fails stays away from what is larger. So does one that, if it grows with the
    square, would take too long or too much memory: on a CPU that would end the program.
    """
    rows: list[BenchRow] = []
    last: dict[str, BenchRow] = {}
    for task, contenders in points:
        bars = {one.label: _bar(last.get(one.label), task, plan) for one in contenders}
        found = iter(compete(task, [one for one in contenders if bars[one.label] is None], plan))
        for one in contenders:
            bar = bars[one.label]
            last[one.label] = next(found) if bar is None else task.row(one, error=bar)
            rows.append(last[one.label])
    return rows


def _bar(before: BenchRow | None, task: Workload, plan: Plan) -> str | None:
    """Why not to begin, going by the row before."""
    if before is None:
        return None
    if before.error is not None:
        return before.error if before.error.startswith(LEFT_OUT) else f"{LEFT_OUT}: {before.error}"
    factor = (task.at or 1.0) / (before.at or 1.0)
    if (before.seconds or 0.0) * factor**2 > MOST_SECONDS:
        return f"{LEFT_OUT}: {before.seconds:.0f} s at {before.at:,.0f} already"
    there, held = _memory(plan.device), before.memory_bytes or 0
    if there is not None and held * factor**2 > there:
        return f"{LEFT_OUT}: {held / 2**30:.1f} GiB at {before.at:,.0f} already"
    return None


def _memory(device: torch.device) -> int | None:
    """Bytes free in this machine; a GPU says itself when it has too little."""
    if device.type != "cpu":
        return None
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
