"""The same work, larger and larger: who can't go on is told so, and the others do."""

from __future__ import annotations

import os
from collections.abc import Iterable

import torch

from regard.bench.contest import Contender, Plan, Task, compete
from regard.bench.rows import LEFT_OUT, Row

LENGTHS = (128, 512, 2048, 8192, 32768)
MOST_SECONDS = 60.0
"""Work that would take longer than this once is not begun."""


def grow(points: Iterable[tuple[Task, list[Contender]]], plan: Plan) -> list[Row]:
    """All points in turn, each larger than the one before.

    A contender that fails stays away from what is larger. So does one that, if it grows with the
    square, would take too long or too much memory: on a CPU that would end the program.
    """
    rows: list[Row] = []
    last: dict[str, Row] = {}
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


def _bar(before: Row | None, task: Task, plan: Plan) -> str | None:
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
