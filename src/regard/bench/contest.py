"""Contenders at the same work, round after round in turn, so that a slow minute hits them all."""

from __future__ import annotations

import math
import os
import statistics
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

import torch

from regard.bench.measures import Footprint, release, seconds
from regard.bench.results import LEFT_OUT, OURS, BenchRow

LEAST_SECONDS = 0.2
"""A round lasts at least so long: shorter work is repeated within it."""
MOST_REPEATS = 1000


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

    def row(self, contender: Contender, **found: object) -> BenchRow:
        """A row of this task."""
        return BenchRow(
            what=self.what,
            who=contender.who,
            how=contender.how,
            precision=contender.precision,
            unit=self.unit,
            by=self.by,
            at=self.at,
            **found,  # type: ignore[arg-type]
        )


@dataclass(slots=True)
class _Entered:
    """A contender on the track."""

    work: Work
    memory: int | None
    repeats: int
    once: float
    """Seconds of one run, when it had warmed up."""
    speeds: list[float] = field(default_factory=list)


def compete(task: Workload, contenders: Sequence[Contender], plan: Plan) -> list[BenchRow]:
    """One row a contender, in their order; one that fails is a row that says why."""
    if "torch._dynamo" in sys.modules:
        torch.compiler.reset()  # it gives up on code that was compiled for too many shapes before
    entered: dict[int, _Entered] = {}
    failed: dict[int, str] = {}
    for i, contender in enumerate(contenders):
        plan.tell(f"{task.what}: {contender.label}")
        _guarded(contender, failed, i, plan, partial(_enter, contender, entered, i, plan))
    for _ in range(plan.rounds):
        for i, one in tuple(entered.items()):
            _guarded(contenders[i], failed, i, plan, partial(_round, one, plan))
            if i in failed:
                del entered[i]
    return [
        task.row(contender, error=failed[i])
        if i in failed
        else _measured(task, contender, entered[i], plan)
        for i, contender in enumerate(contenders)
    ]


def _guarded(
    contender: Contender, failed: dict[int, str], i: int, plan: Plan, act: Callable[[], None]
) -> None:
    """Whatever a contender dies of is its result, not the end of the run."""
    try:
        with _quiet(contender):
            act()
    except Exception as error:
        failed[i] = why(error)
    if i in failed:  # outside the handler, where no traceback holds its tensors any more
        plan.tell(f"{contender.label} failed: {failed[i]}")
        release(plan.device)


def _enter(contender: Contender, entered: dict[int, _Entered], i: int, plan: Plan) -> None:
    watch = Footprint(plan.device)
    work = contender.start()
    work.run()  # compiles, chooses kernels, fills caches
    once = seconds(work.run, plan.device)
    repeats = min(MOST_REPEATS, math.ceil(LEAST_SECONDS / max(once, 1e-9)))
    entered[i] = _Entered(work, watch.bytes, repeats, once)


def _round(one: _Entered, plan: Plan) -> None:
    done = 0.0

    def run() -> None:
        nonlocal done
        done += one.work.run()

    took = seconds(run, plan.device, times=one.repeats)
    one.speeds.append(done / took)


def _measured(task: Workload, contender: Contender, one: _Entered, plan: Plan) -> BenchRow:
    value = statistics.median(one.speeds)
    rate = plan.matrix_rates.get(contender.precision)
    flops = task.flops if one.work.flops is None else one.work.flops
    return task.row(
        contender,
        value=value / task.unit_size,
        low=min(one.speeds) / task.unit_size,
        high=max(one.speeds) / task.unit_size,
        seconds=one.once,
        share=value * flops / rate if rate and flops else None,
        memory_bytes=one.memory,
        parameters=one.work.n_parameters,
    )


def why(error: Exception) -> str:
    """The reason in one line."""
    if isinstance(error, torch.OutOfMemoryError) or "allocate memory" in str(error):
        return "out of memory"
    first = str(error).strip().split("\n")[0]
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


@contextmanager
def _quiet(contender: Contender) -> Iterator[None]:
    """What a peer warns of is not the reader's concern; what we warn of is."""
    with warnings.catch_warnings():
        if contender.who != OURS:
            warnings.simplefilter("ignore")
        yield


LENGTHS = (128, 512, 2048, 8192, 32768)
MOST_SECONDS = 60.0
"""Work that would take longer than this once is not begun."""


def grow(points: Iterable[tuple[Workload, list[Contender]]], plan: Plan) -> list[BenchRow]:
    """All points in turn, each larger than the one before.

    A contender that fails stays away from what is larger. So does one that, if it grows with the
    square, would take too long or too much memory: on a CPU that would end the program.
    """
    rows: list[BenchRow] = []
    last: dict[str, BenchRow] = {}
    for task, contenders in points:
        barred = {c.label: _bar(last.get(c.label), task, plan) for c in contenders}
        fit = [c for c in contenders if barred[c.label] is None]
        found = iter(compete(task, fit, plan))
        for contender in contenders:
            bar = barred[contender.label]
            row = next(found) if bar is None else task.row(contender, error=bar)
            last[contender.label] = row
            rows.append(row)
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
    there = _memory(plan.device)
    if there is not None and (before.memory_bytes or 0) * factor**2 > there:
        return (
            f"{LEFT_OUT}: {(before.memory_bytes or 0) / 2**30:.1f} GiB at {before.at:,.0f} already"
        )
    return None


def _memory(device: torch.device) -> int | None:
    """Bytes free in this machine; a GPU says itself when it has too little."""
    if device.type != "cpu":
        return None
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
