"""A line chart as one piece of SVG: no script, no style sheet, nothing to load.

Text and axes are drawn in ``currentColor``, so the chart takes on the ink of the page around it,
light or dark; the colours of the lines stand out on both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from regard.visual.axes import Axis, linear_axis, log_axis, spoken
from regard.visual.svg import Markup, element, picture

Point = tuple[float, float]
Run = list[Point]
"""Neighbouring points with no gap between them."""

# Okabe & Ito (2008), told apart by colour-blind readers. Their yellow and black are left out: one
# fades on white, the other on black.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_DASHES = (None, "7 3", "2 3")

_WIDTH, _PLOT_HEIGHT, _RIGHT = 420, 180, 22  # small, so that a phone does not shrink the text
_ROW = 18
_LETTER = 6.8  # width of an average letter at the sizes used here; SVG text cannot be measured
_MANY = 60  # beyond so many points a series is a bare line, and its points only answer the mouse
_LARGEST = 1e100  # what no real measurement reaches; keeps differences of values finite


@dataclass(frozen=True, slots=True)
class _Frame:
    """Where the plot stands inside the picture."""

    left: float
    top: float
    x_axis: Axis
    y_axis: Axis

    def place(self, x: float, y: float) -> Point:
        width = _WIDTH - _RIGHT - self.left
        return (
            self.left + width * self.x_axis.share(x),
            self.top + _PLOT_HEIGHT * (1 - self.y_axis.share(y)),
        )


def curves(
    series: Mapping[str, Sequence[Point]],
    *,
    title: str,
    x_label: str,
    y_label: str,
    log_y: bool = False,
) -> str:
    """Draw each series of (x, y) as a line; point at it to read the numbers.

    A point that cannot be drawn (NaN, infinite, or not positive where ``log_y``) leaves a gap.
    """
    runs = {name: _runs(points, log_y) for name, points in series.items()}
    drawn = [point for parts in runs.values() for run in parts for point in run]
    legend = _legend_rows(list(series))
    frame = _frame(drawn, len(legend), log_y)
    labels = (x_label, y_label)
    lines = [_line(name, i, runs[name], frame, labels) for i, name in enumerate(runs)]
    return picture(
        element("text", title, x=0, y=17, font_size=15, font_weight=600),
        *_legend(legend),
        _grid(frame),
        _names(frame, labels),
        *(lines if drawn else [_nothing(frame)]),
        box=f"0 0 {_WIDTH} {frame.top + _PLOT_HEIGHT + 46}",
        label=f"{title}: {y_label} by {x_label} of {', '.join(series) or 'nothing'}",
        font_size=12,
    )


def _frame(drawn: Sequence[Point], n_legend_rows: int, log_y: bool) -> _Frame:
    y_values = [y for _, y in drawn]
    y_axis = log_axis(y_values) if log_y else linear_axis(y_values, outward=True)
    widest = max((len(label) for _, label in y_axis.ticks), default=1)
    return _Frame(
        left=14 + _LETTER * widest,
        top=58 + _ROW * n_legend_rows,
        x_axis=linear_axis([x for x, _ in drawn]),
        y_axis=y_axis,
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


def _ink(i: int) -> tuple[str, str | None]:
    """Colour and dashes of series i; dashes tell apart those beyond the palette."""
    return PALETTE[i % len(PALETTE)], _DASHES[i // len(PALETTE) % len(_DASHES)]


def _line(name: str, i: int, runs: list[Run], frame: _Frame, labels: tuple[str, str]) -> Markup:
    """One series: a path a run, and a circle a point that carries its numbers."""
    colour, dash = _ink(i)
    bare = sum(map(len, runs)) > _MANY
    parts = []
    for run in runs:
        places = [frame.place(x, y) for x, y in run]
        if len(run) > 1:
            path = "M" + "L".join(f"{x:.2f} {y:.2f}" for x, y in places)
            parts.append(element("path", d=path, stroke_dasharray=dash))
        hidden = bare and len(run) > 1
        for (cx, cy), (x, y) in zip(places, run, strict=True):
            note = f"{name}: {labels[0]} {spoken(x)}, {labels[1]} {spoken(y)}"
            parts.append(_dot(cx, cy, colour, note, hidden=hidden))
    return element(
        "g", *parts, fill="none", stroke=colour, stroke_width=1.8, stroke_linejoin="round"
    )


def _dot(cx: float, cy: float, colour: str, note: str, *, hidden: bool) -> Markup:
    """A circle to point at; a hidden one is larger, since nobody can see where it is."""
    return element(
        "circle",
        element("title", note),
        cx=cx,
        cy=cy,
        r=5 if hidden else 2.4,
        fill=colour,
        opacity=0 if hidden else None,
        stroke="none",
    )


def _grid(frame: _Frame) -> Markup:
    """Fine lines at the y ticks, the x axis, and the numbers of both."""
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
    return element("g", *parts, fill_opacity=0.72)


def _rule(x1: float, y1: float, x2: float, y2: float, opacity: float) -> Markup:
    return element(
        "line", x1=x1, y1=y1, x2=x2, y2=y2, stroke="currentColor", stroke_opacity=opacity
    )


def _names(frame: _Frame, labels: tuple[str, str]) -> Markup:
    """What the axes measure: y above its numbers, for upright text is easier to read."""
    bottom = frame.top + _PLOT_HEIGHT
    return element(
        "g",
        element("text", labels[1], x=0, y=frame.top - 16),
        element("text", labels[0], x=_WIDTH - _RIGHT, y=bottom + 38, text_anchor="end"),
        fill_opacity=0.72,
    )


def _nothing(frame: _Frame) -> Markup:
    x, y = (frame.left + _WIDTH - _RIGHT) / 2, frame.top + _PLOT_HEIGHT / 2
    return element("text", "no data", x=x, y=y, text_anchor="middle", fill_opacity=0.5)


def _legend_rows(names: Sequence[str]) -> list[list[tuple[int, str, float]]]:
    """(series, short name, x) of each entry, broken into rows that fit the width."""
    rows: list[list[tuple[int, str, float]]] = []
    x = _WIDTH + 1.0
    for i, name in enumerate(names):
        short = name if len(name) <= 48 else name[:47] + "…"
        width = 40 + _LETTER * len(short)
        if x + width > _WIDTH + 14:
            rows.append([])
            x = 0
        rows[-1].append((i, short, x))
        x += width
    return rows


def _legend(rows: list[list[tuple[int, str, float]]]) -> list[Markup]:
    entries = []
    for row, members in enumerate(rows):
        y = 38 + _ROW * row
        for i, name, x in members:
            colour, dash = _ink(i)
            entries.append(
                element(
                    "g",
                    element(
                        "path",
                        d=f"M{x:.2f} {y - 4}h18",
                        stroke=colour,
                        stroke_width=2.5,
                        stroke_dasharray=dash,
                    ),
                    element("text", name, x=x + 24, y=y),
                )
            )
    return entries
