"""Parallel coordinates as SVG: an upright axis a setting, a line a trial, the score at the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from regard.visual.charts import NumberAxis, linear_axis, log_axis
from regard.visual.svg import Markup, element, picture
from regard.visual.theme import INK, PALETTE, exact

_HEIGHT, _APART, _LEFT, _TOP, _BOTTOM = 220, 120, 60, 64, 24
_FEW = 7
"""Different numbers up to which an axis is marked at each, not at round ones."""
_WIDE = 10.0
"""From this ratio of its ends on, an axis of positive numbers is logarithmic."""
_BEST = PALETTE[1]

Values = Sequence[float | str]
"""Of one axis, one per line; all numbers, or all names."""


@dataclass(frozen=True, slots=True)
class _Column:
    """An axis: where each line crosses it, from 0 below to 1 above, and its marks."""

    name: str
    shares: Sequence[float]
    marks: Sequence[tuple[float, str]]


def parallel_coordinates(axes: Mapping[str, Values], *, title: str) -> str:
    """Draw a line a trial through its values on each axis; the first trial, the best, stands out.

    The last axis is what trials are judged by. Lines fade from the first to the last.
    """
    columns = [_column(name, values) for name, values in axes.items()]
    n = len(columns[0].shares)
    said = [
        ", ".join(f"{name} {_said(values[i])}" for name, values in axes.items()) for i in range(n)
    ]
    lines = [_line(columns, i, n, said[i]) for i in reversed(range(n))]  # the best on top
    return picture(
        element("text", title, x=0, y=17, font_size=15, font_weight=600),
        *(_axis(column, i) for i, column in enumerate(columns)),
        *lines,
        size=(2 * _LEFT + _APART * (len(columns) - 1), _TOP + _HEIGHT + _BOTTOM),
        fixed=False,
        label=f"{title}: {'; '.join(said) or 'no data'}",
        font_size=12,
    )


def _column(name: str, values: Values) -> _Column:
    numbers = [value for value in values if not isinstance(value, str)]
    if len(numbers) < len(values):
        names = list(dict.fromkeys(map(str, values)))
        places = {one: (i + 0.5) / len(names) for i, one in enumerate(names)}
        return _Column(name, [places[str(value)] for value in values], [*_swapped(places)])
    axis = _number_axis(numbers)
    different = sorted(set(numbers))
    few = [(axis.share(one), exact(one)) for one in different]
    many = [(axis.share(value), label) for value, label in axis.ticks]
    marks = few if len(different) <= _FEW else many
    return _Column(name, [axis.share(value) for value in numbers], marks)


def _number_axis(numbers: Sequence[float]) -> NumberAxis:
    low, high = min(numbers, default=0.0), max(numbers, default=1.0)
    return log_axis(numbers) if low > 0 and high / low >= _WIDE else linear_axis(numbers)


def _swapped(places: Mapping[str, float]) -> list[tuple[float, str]]:
    return [(place, name) for name, place in places.items()]


def _axis(column: _Column, i: int) -> Markup:
    x = _LEFT + _APART * i
    ends = {"x1": x, "x2": x, "y1": _TOP, "y2": _TOP + _HEIGHT}
    parts = [
        element("text", column.name, x=x, y=_TOP - 14, text_anchor="middle", font_weight=600),
        element("line", **ends, stroke="currentColor", stroke_opacity=0.5),
    ]
    for share, label in column.marks:
        parts.append(element("text", label, x=x + 6, y=_y(share) + 4, fill_opacity=0.72))
    return element("g", *parts)


def _line(columns: Sequence[_Column], i: int, n: int, said: str) -> Markup:
    places = (f"{_LEFT + _APART * j} {_y(one.shares[i]):.2f}" for j, one in enumerate(columns))
    best = i == 0
    return element(
        "path",
        element("title", said),
        d="M" + "L".join(places),
        fill="none",
        stroke=_BEST if best else INK,
        stroke_width=3 if best else 1.6,
        stroke_opacity=1 if best else 0.85 - 0.6 * i / n,
        stroke_linejoin="round",
    )


def _y(share: float) -> float:
    return _TOP + _HEIGHT * (1 - share)


def _said(value: float | str) -> str:
    return value if isinstance(value, str) else exact(value)
