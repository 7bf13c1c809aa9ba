"""What a benchmark found: rows, tables for people, one picture."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from regard.visual.charts import bars, curves
from regard.visual.svg import stack
from regard.visual.tables import Table

OURS = "regard"
"""Who we are in a row; everybody else is a peer."""
LEFT_OUT = "left out"
"""How the error begins of who was not even started."""

NONE = "–"
HEADER = (
    "Who", "Precision", "Parameters", "Median", "Slowest – fastest", "To best peer",
    "Of matrix rate", "Memory, GiB",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchRow:
    """One contender at one piece of work."""

    what: str
    """The work. Rows of the same work are compared, whatever their precision."""
    who: str
    how: str = ""
    """Which of its ways, where it has several: an engine, compiled, a kernel."""
    precision: str
    value: float | None = None
    """Median over the rounds; None where it failed. More is better."""
    low: float | None = None
    high: float | None = None
    """The slowest and the fastest round."""
    unit: str
    seconds: float | None = None
    """Of the work done once."""
    share: float | None = None
    """Of the device's matrix-multiply rate in the same precision, measured in this run."""
    memory_bytes: int | None = None
    """The most that it held, its weights included."""
    parameters: int | None = None
    limit: str | None = None
    """What most of its time goes to."""
    error: str | None = None
    """Why there is no value."""
    by: str | None = None
    """What the work grows with, where there is a series of it; and how much of it there is."""
    at: float | None = None

    @property
    def label(self) -> str:
        """Who and how, for a table or a picture."""
        return f"{self.who} ({self.how})" if self.how else self.who

    @property
    def kind(self) -> str:
        """The work; in a series, without how much of it there is."""
        return self.what if self.by is None else self.what.rsplit(", ", 1)[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """A whole run of a benchmark."""

    device: str
    facts: Mapping[str, Any]
    """What a reader needs to repeat it: versions, threads, shapes."""
    matrix_rates: Mapping[str, float]
    """Precision -> FLOP/s of a large product of matrices here."""
    rows: tuple[BenchRow, ...]

    def ratio(self, row: BenchRow) -> float | None:
        """A row's value over the best peer's at the same work."""
        peers = [one.value for one in self.rows if one.what == row.what and one.who != OURS]
        best = max((value for value in peers if value is not None), default=None)
        return None if best is None or row.value is None else row.value / best

    def as_json(self) -> dict[str, Any]:
        """All of it, as JSON."""
        return {
            "device": self.device,
            **self.facts,
            "matrix_flops_per_second": dict(self.matrix_rates),
            "rows": [{**asdict(row), "ratio": self.ratio(row)} for row in self.rows],
        }


def tables(bench: Bench) -> list[Table]:
    """A table for each piece of work, or for each series of it, in the order of the rows."""
    groups: dict[str, list[BenchRow]] = {}
    for row in bench.rows:
        groups.setdefault(row.kind, []).append(row)
    return [_table(bench, rows) for rows in groups.values()]


def remarks(bench: Bench) -> list[str]:
    """What limits whom, and who failed and why."""
    told = [(row, row.limit if row.error is None else row.error) for row in bench.rows]
    return [f"{row.what}, {row.label}, {row.precision}: {why}" for row, why in told if why]


def _table(bench: Bench, rows: list[BenchRow]) -> Table:
    by = rows[0].by
    header = HEADER if by is None else (HEADER[0], by, *HEADER[1:])
    return Table(f"{rows[0].kind}, {rows[0].unit}", header, [_cells(bench, row) for row in rows])


def _cells(bench: Bench, row: BenchRow) -> list[str]:
    ratio = bench.ratio(row)
    value = "left out" if (row.error or "").startswith(LEFT_OUT) else "failed"
    return [
        row.label,
        *([] if row.by is None else [f"{row.at:,.0f}"]),
        row.precision,
        NONE if row.parameters is None else f"{row.parameters:,}",
        value if row.value is None else number(row.value),
        NONE if row.low is None or row.high is None else f"{number(row.low)} – {number(row.high)}",
        NONE if ratio is None else f"{'×' if row.who == OURS else ''}{ratio:.2f}",
        NONE if row.share is None else f"{row.share:.1%}",
        NONE if row.memory_bytes is None else f"{row.memory_bytes / 2**30:.2f}",
    ]


def number(value: float) -> str:
    """Three digits at least.

    >>> number(331234.5), number(42.25), number(0.4215)
    ('331,234', '42.2', '0.421')
    """
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def plot(bench: Bench) -> str:
    """One SVG. Who failed is not drawn."""
    groups: dict[tuple[bool, str | None, str], list[BenchRow]] = {}
    for row in bench.rows:
        if row.value is not None:
            groups.setdefault((row.by is not None, row.by, row.kind), []).append(row)
    series_last = sorted(groups, key=lambda key: key[0])
    pictures = [(_curves if key[0] else _bars)(groups[key]) for key in series_last]
    return stack(pictures, label=f"benchmark on {bench.device}")


def _bars(rows: list[BenchRow]) -> str:
    values = {f"{row.label}, {row.precision}": row.value or 0.0 for row in rows}
    digits = 0 if max(values.values()) >= 100 else 1
    return bars(values, title=f"{rows[0].what}, {rows[0].unit}", digits=digits)


def _curves(rows: list[BenchRow]) -> str:
    """Lengths double from tick to tick, so that short ones have room too."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        point = (math.log2(row.at or 1.0), row.value or 0.0)
        lines.setdefault(f"{row.label}, {row.precision}", []).append(point)
    x_label = f"{rows[0].by}, as a power of 2"
    return curves(lines, title=rows[0].kind, x_label=x_label, y_label=rows[0].unit, log_y=True)
