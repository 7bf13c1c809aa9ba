"""What a benchmark found, as one picture: bars for single works, curves for series."""

from __future__ import annotations

import math

from regard.bench.rows import Bench, Row
from regard.visual.charts import bars, curves
from regard.visual.svg import stack


def plot(bench: Bench) -> str:
    """One SVG. Who failed is not drawn."""
    alone = [row for row in bench.rows if row.by is None and row.value is not None]
    series = [row for row in bench.rows if row.by is not None and row.value is not None]
    works = dict.fromkeys(row.what for row in alone)
    growths = dict.fromkeys((row.by, row.kind) for row in series)
    pictures = [_bars([row for row in alone if row.what == what]) for what in works]
    for by, kind in growths:
        pictures.append(_curves([row for row in series if (row.by, row.kind) == (by, kind)]))
    return stack(pictures, label=f"benchmark on {bench.device}")


def _bars(rows: list[Row]) -> str:
    values = {f"{row.label}, {row.precision}": row.value or 0.0 for row in rows}
    digits = 0 if max(values.values()) >= 100 else 1
    return bars(values, title=f"{rows[0].what}, {rows[0].unit}", digits=digits)


def _curves(rows: list[Row]) -> str:
    """Lengths double from tick to tick, so that short ones have room too."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        point = (math.log2(row.at or 1.0), row.value or 0.0)
        lines.setdefault(f"{row.label}, {row.precision}", []).append(point)
    return curves(
        lines, title=rows[0].kind, x_label=f"{rows[0].by}, as a power of 2", y_label=rows[0].unit,
        log_y=True,
    )  # fmt: skip
