"""What a benchmark found, for people."""

from __future__ import annotations

from regard.bench.rows import LEFT_OUT, OURS, Bench, Row
from regard.visual.tables import Table

NONE = "–"
HEADER = (
    "Who",
    "Precision",
    "Parameters",
    "Median",
    "Slowest – fastest",
    "To best peer",
    "Of matrix rate",
    "Memory, GiB",
)


def tables(bench: Bench) -> list[Table]:
    """A table for each piece of work, or for each series of it, in the order of the rows."""
    groups: dict[str, list[Row]] = {}
    for row in bench.rows:
        groups.setdefault(row.kind, []).append(row)
    return [_table(bench, rows) for rows in groups.values()]


def remarks(bench: Bench) -> list[str]:
    """What limits whom, and who failed and why."""
    lines = []
    for row in bench.rows:
        told = row.error if row.error is not None else row.limit
        if told is not None:
            lines.append(f"{row.what}, {row.label}, {row.precision}: {told}")
    return lines


def _table(bench: Bench, rows: list[Row]) -> Table:
    caption = f"{rows[0].kind}, {rows[0].unit}"
    cells = [_cells(bench, row) for row in rows]
    if rows[0].by is None:
        return Table(caption, HEADER, cells)
    series = [[who, f"{row.at:,.0f}", *rest] for row, (who, *rest) in zip(rows, cells, strict=True)]
    return Table(caption, (HEADER[0], rows[0].by, *HEADER[1:]), series)


def _cells(bench: Bench, row: Row) -> list[str]:
    ratio = bench.ratio(row)
    mine = row.who == OURS
    return [
        row.label,
        row.precision,
        NONE if row.parameters is None else f"{row.parameters:,}",
        _value(row),
        NONE if row.low is None or row.high is None else f"{number(row.low)} – {number(row.high)}",
        NONE if ratio is None else f"{'×' if mine else ''}{ratio:.2f}",
        NONE if row.share is None else f"{row.share:.1%}",
        NONE if row.memory_bytes is None else f"{row.memory_bytes / 2**30:.2f}",
    ]


def _value(row: Row) -> str:
    if row.value is not None:
        return number(row.value)
    return "left out" if (row.error or "").startswith(LEFT_OUT) else "failed"


def number(value: float) -> str:
    """Three digits at least.

    >>> number(331234.5), number(42.25), number(0.4215)
    ('331,234', '42.2', '0.421')
    """
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
