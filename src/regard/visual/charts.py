"""Charts of numbers as pieces of SVG: curves and bars, with ticks at round numbers.

No script, no style sheet, nothing to load. Text and axes are drawn in ``currentColor``, so a chart
takes on the ink of the page around it, light or dark; the colours of the lines stand out on both.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from regard.visual.svg import Attributes, Markup, element, picture
from regard.visual.theme import INK, colour_of, exact

Point = tuple[float, float]
Run = list[Point]  # neighbouring points with no gap between them

_WIDTH, _PLOT_HEIGHT, _RIGHT = 420, 180, 22  # small, so that a phone does not shrink the text
_ROW = 18
_LETTER = 6.8  # width of an average letter at the sizes used here; SVG text cannot be measured
_MANY = 60  # beyond so many points a series is a bare line, and its points only answer the mouse
_LARGEST = 1e100  # what no real measurement reaches; keeps differences of values finite
_BAR_ROW, _BAR = 26, 14
# (from where on, unit, its sign): thousands are written out up to 10,000
_UNITS = ((1e12, 1e12, "T"), (1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k"))


def curves(
    series: Mapping[str, Sequence[Point]],
    *,
    title: str,
    x_label: str,
    y_label: str,
    log_y: bool = False,
    reach: Sequence[float] = (),
) -> str:
    """Draw each series of (x, y) as a line; NaN, infinity and logs of less than 0 leave a gap.

    ``reach`` are values that a linear y axis covers whatever is drawn, such as 0: one that begins
    elsewhere makes small differences look large.
    """
    runs = {name: _runs(points, log_y) for name, points in series.items()}
    drawn = [point for parts in runs.values() for run in parts for point in run]
    legend, n_rows = _legend(list(series))
    y_values = [*(y for _, y in drawn), *(() if log_y else reach)]
    y_axis = log_axis(y_values) if log_y else linear_axis(y_values, outward=True)
    widest = max((len(label) for _, label in y_axis.ticks), default=1)
    left, top = 14 + _LETTER * widest, 58 + _ROW * n_rows
    frame = _Frame(left, top, linear_axis([x for x, _ in drawn]), y_axis)
    labels = (x_label, y_label)
    lines = [_line(name, i, runs[name], frame, labels) for i, name in enumerate(runs)]
    x, y = (left + _WIDTH - _RIGHT) / 2, top + _PLOT_HEIGHT / 2
    nothing = element("text", "no data", x=x, y=y, text_anchor="middle", fill_opacity=0.5)
    return _chart(
        title,
        *legend,
        *_axes(frame, labels),
        *(lines if drawn else [nothing]),
        height=top + _PLOT_HEIGHT + 46,
        told=f"{y_label} by {x_label} of {', '.join(series) or 'nothing'}",
    )


def _chart(title: str, *parts: Markup, height: float, told: str) -> str:
    """A picture with a title, as wide as all charts are."""
    return picture(
        element("text", title, x=0, y=17, font_size=15, font_weight=600),
        *parts,
        size=(_WIDTH, height),
        fixed=False,
        label=f"{title}: {told}",
        font_size=12,
    )


def _runs(points: Sequence[Point], log_y: bool) -> list[Run]:
    runs: list[Run] = [[]]
    for x, y in points:
        # NaN fails every comparison, so this also is where it is found out.
        if abs(x) < _LARGEST and abs(y) < _LARGEST and (not log_y or y > 1 / _LARGEST):
            runs[-1].append((x, y))
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if run]


def _line(name: str, i: int, runs: list[Run], frame: _Frame, labels: tuple[str, str]) -> Markup:
    """One series: a path a run, and a circle a point that carries its numbers."""
    colour, dash = colour_of(i)
    bare = sum(map(len, runs)) > _MANY
    parts = []
    for run in runs:
        places = [frame.place(x, y) for x, y in run]
        if len(run) > 1:
            path = "M" + "L".join(f"{x:.2f} {y:.2f}" for x, y in places)
            parts.append(element("path", d=path, stroke_dasharray=dash))
        # A hidden point is larger, since nobody can see where it is.
        seen = {"r": 5, "opacity": 0} if bare and len(run) > 1 else {"r": 2.4}
        for (cx, cy), (x, y) in zip(places, run, strict=True):
            note = element("title", f"{name}: {labels[0]} {exact(x)}, {labels[1]} {exact(y)}")
            parts.append(element("circle", note, cx=cx, cy=cy, fill=colour, stroke="none", **seen))
    ink: Attributes = {"fill": "none", "stroke": colour, "stroke_width": 1.8}
    return element("g", *parts, **ink, stroke_linejoin="round")


def _axes(frame: _Frame, labels: tuple[str, str]) -> tuple[Markup, Markup]:
    """Fine lines at the y ticks and the x axis with the numbers of both; what the axes measure."""
    bottom, right = frame.top + _PLOT_HEIGHT, _WIDTH - _RIGHT
    parts = []
    for value, label in frame.y_axis.ticks:
        _, y = frame.place(frame.x_axis.low, value)
        parts.append(_rule(frame.left, y, right, y, 0.13))
        parts.append(element("text", label, x=frame.left - 7, y=y + 4, text_anchor="end"))
    parts.append(_rule(frame.left, bottom, right, bottom, 0.5))
    for value, label in frame.x_axis.ticks:
        x, _ = frame.place(value, frame.y_axis.low)
        parts.append(_rule(x, bottom, x, bottom + 4, 0.5))
        parts.append(element("text", label, x=x, y=bottom + 18, text_anchor="middle"))
    # The name of y stands above its numbers, for upright text is easier to read.
    y_name = element("text", labels[1], x=0, y=frame.top - 16)
    x_name = element("text", labels[0], x=right, y=bottom + 38, text_anchor="end")
    return element("g", *parts, fill_opacity=0.72), element("g", y_name, x_name, fill_opacity=0.72)


def _rule(x1: float, y1: float, x2: float, y2: float, opacity: float) -> Markup:
    ends = {"x1": x1, "y1": y1, "x2": x2, "y2": y2}
    return element("line", **ends, stroke="currentColor", stroke_opacity=opacity)


def _legend(names: Sequence[str]) -> tuple[list[Markup], int]:
    """An entry a series, and in how many rows they stand, broken to fit the width."""
    entries, row, x = [], 0, 0.0
    for i, name in enumerate(names):
        short = name if len(name) <= 48 else name[:47] + "…"
        width = 40 + _LETTER * len(short)
        if i and x + width > _WIDTH + 14:
            row, x = row + 1, 0.0
        y = 38 + _ROW * row
        colour, dash = colour_of(i)
        ink: Attributes = {"stroke": colour, "stroke_width": 2.5, "stroke_dasharray": dash}
        line = element("path", d=f"M{x:.2f} {y - 4}h18", **ink)
        entries.append(element("g", line, element("text", short, x=x + 24, y=y)))
        x += width
    return entries, row + 1 if names else 0


def bars(values: Mapping[str, float], *, title: str, unit: str = "", digits: int = 2) -> str:
    """One horizontal bar a value, from 0; the number stands at its end. Values are not negative."""
    texts = [f"{value:,.{digits}f}{unit}" for value in values.values()]
    left = 12 + _LETTER * max(map(len, values), default=0)
    room = _WIDTH - left - 12 - _LETTER * max(map(len, texts), default=0)
    largest = max(values.values(), default=0.0) or 1.0
    rows = []
    for i, ((name, value), text) in enumerate(zip(values.items(), texts, strict=True)):
        y, length = 34 + _BAR_ROW * i, room * max(0.0, value) / largest
        row = (
            element("text", name, x=left - 8, y=y + 11, text_anchor="end"),
            element("rect", x=left, y=y, width=max(length, 1.0), height=_BAR, fill=INK, rx=2),
            element("text", text, x=left + length + 6, y=y + 11),
        )
        rows.append(element("g", *row))
    told = ", ".join(map(" ".join, zip(values, texts, strict=True)))
    return _chart(title, *rows, height=40 + _BAR_ROW * len(values), told=told)


@dataclass(frozen=True, slots=True)
class NumberAxis:
    """A range of values, linear or logarithmic, and where to mark it."""

    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]  # (value, label), rising
    log: bool = False

    def share(self, value: float) -> float:
        """0 at the low end, 1 at the high end."""
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)


def linear_axis(values: Sequence[float], *, outward: bool = False) -> NumberAxis:
    """An axis over the values, from 0 where they begin near it; ``outward`` ends it at ticks."""
    low, high = _spread(min(values, default=0.0), max(values, default=1.0))
    step = _step(high - low)
    if 0 < low < step:
        low = 0.0
    if outward:
        low, high = step * math.floor(low / step + 1e-9), step * math.ceil(high / step - 1e-9)
    return NumberAxis(low, high, _labelled(_multiples(low, high, step), step))


def log_axis(values: Sequence[float]) -> NumberAxis:
    """A logarithmic axis over positive values; ticks at powers of ten, closer on a short one."""
    low, high = min(values, default=0.1), max(values, default=1.0)
    margin = (high / low) ** 0.04 if high / low > 1.001 else 1.5
    low, high = low / margin, high * margin
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    every = 1 + len(decades) // 8
    thinned = [e for e in decades if e % every == 0]
    for marks in ((1,), (1, 2, 5)):
        ticks = [m * 10.0**e for e in thinned for m in marks if low <= m * 10.0**e <= high]
        if len(ticks) >= 3:
            return NumberAxis(low, high, tuple((t, _label(t, t, t)) for t in ticks), log=True)
    step = _step(high - low)
    return NumberAxis(low, high, _labelled(_multiples(low, high, step), step), log=True)


def _spread(low: float, high: float) -> tuple[float, float]:
    """Equal values, or nearly, would leave an axis without length."""
    size = max(abs(low), abs(high))
    if high - low > 1e-9 * size and high - low > 1e-90:
        return low, high
    margin = size / 10 if size > 1e-80 else 0.5
    return low - margin, high + margin


def _step(span: float) -> float:
    """1, 2 or 5 times a power of ten, so that about five fit."""
    rough = span / 5
    power = 10.0 ** math.floor(math.log10(rough))
    return next((m * power for m in (1, 2, 5) if m * power >= rough * (1 - 1e-9)), 10 * power)


def _multiples(low: float, high: float, step: float) -> list[float]:
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [i * step for i in range(first, last + 1)]


def _labelled(ticks: Sequence[float], step: float) -> tuple[tuple[float, str], ...]:
    largest = max(map(abs, ticks), default=0.0)
    return tuple((tick, _label(tick, step, largest)) for tick in ticks)


def _label(value: float, step: float, largest: float) -> str:
    """As short as tells neighbours apart; all labels of an axis have one unit."""
    if abs(value) < step * 1e-6:
        return "0"
    if largest >= 1e15 or largest < 1e-3:
        significant = math.floor(math.log10(largest)) - math.floor(math.log10(step) + 1e-9) + 1
        return f"{value:.{max(4, significant)}g}"
    units = ((u, s) for start, u, s in _UNITS if largest >= start and step >= u / 1000)
    unit, suffix = next(units, (1.0, ""))
    decimals = max(0, -math.floor(math.log10(step / unit) + 1e-9))
    digits = f"{value / unit:,.{decimals}f}"
    return (digits.rstrip("0").rstrip(".") if "." in digits else digits) + suffix


@dataclass(frozen=True, slots=True)
class _Frame:
    """Where the plot stands inside the picture."""

    left: float
    top: float
    x_axis: NumberAxis
    y_axis: NumberAxis

    def place(self, x: float, y: float) -> Point:
        right = (_WIDTH - _RIGHT - self.left) * self.x_axis.share(x)
        return self.left + right, self.top + _PLOT_HEIGHT * (1 - self.y_axis.share(y))
