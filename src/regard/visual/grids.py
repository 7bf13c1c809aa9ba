"""Numbers as fields of colour: blue above 0, orange below, the larger the stronger.

``grids`` is for tables that are too large for a name a row, such as the codes of a hundred
positions; ``sheets`` is for those small enough to have their numbers written in. Several stand side
by side, each scaled by its own largest number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.visual.charts import linear_axis
from regard.visual.heat_maps import data_uri
from regard.visual.svg import Attributes, Markup, element, picture
from regard.visual.theme import PALETTE

ABOVE, BELOW = PALETTE[0], PALETTE[1]
_SIDE, _LEFT, _TOP, _BOTTOM, _GAP = 220, 34, 66, 40, 26
_CELL = (54, 28)
_LETTER = 6.8  # width of an average letter; SVG text cannot be measured
_PALE = 0.4  # the strongest colour behind a number, which is read on light and on dark


def grids(panels: Mapping[str, Any], *, title: str, x_label: str, y_label: str) -> str:
    """Tables (R, C) by name, side by side: rows downwards, columns to the right, from 0."""
    parts: list[Markup] = [element("text", title, x=0, y=17, font_size=15, font_weight=600)]
    x = 0.0
    for name, values in panels.items():
        at = f"translate({x:.1f} 0)"
        parts.append(
            element("g", *_panel(name, np.asarray(values), x_label, y_label), transform=at)
        )
        x += _LEFT + _SIDE + _GAP
    size = (max(x, 9 * len(title)), _TOP + _SIDE + _BOTTOM)
    told = f"{title}: {y_label} by {x_label} of {', '.join(panels)}"
    return picture(*parts, size=size, label=told, font_size=12)


def _panel(name: str, values: NDArray[Any], x_label: str, y_label: str) -> list[Markup]:
    """One table with its name and both axes."""
    rows, columns = values.shape
    low, most = float(values.min(initial=0.0)), float(np.abs(values).max(initial=0.0))
    image = element(
        "image",
        href=data_uri(signed_pixels(values)),
        x=_LEFT,
        y=_TOP,
        width=_SIDE,
        height=_SIDE,
        preserveAspectRatio="none",
        style="image-rendering: pixelated",
    )
    edge: Attributes = {"fill": "none", "stroke": "currentColor", "stroke_opacity": 0.3}
    frame = element("rect", x=_LEFT, y=_TOP, width=_SIDE, height=_SIDE, **edge)
    head = element("text", f"{name}, up to {'±' if low < 0 else ''}{most:.2g}", x=_LEFT, y=40)
    marks = [
        element("text", label, x=_LEFT + _SIDE * (at + 0.5) / columns, y=_TOP + _SIDE + 15,
                text_anchor="middle")
        for at, label in linear_axis([0, columns - 1]).ticks
    ]  # fmt: skip
    marks += [
        element("text", label, x=_LEFT - 5, y=_TOP + _SIDE * (at + 0.5) / rows + 4,
                text_anchor="end")
        for at, label in linear_axis([0, rows - 1]).ticks
    ]  # fmt: skip
    marks.append(element("text", y_label, x=0, y=_TOP - 8))
    x_name = element("text", x_label, x=_LEFT + _SIDE, y=_TOP + _SIDE + 32, text_anchor="end")
    return [head, image, frame, element("g", *marks, x_name, fill_opacity=0.72)]


def sheets(
    panels: Mapping[str, Sequence[Sequence[float]]],
    columns: Mapping[str, Sequence[str]],
    rows: Sequence[str],
    *,
    title: str,
) -> str:
    """Small tables by name, of the same rows and each with its own columns, numbers written in."""
    wide, high = _CELL
    left, top = 12 + _LETTER * max(map(len, rows)), 74.0
    parts: list[Markup] = [element("text", title, x=0, y=17, font_size=15, font_weight=600)]
    for t, row in enumerate(rows):
        parts.append(element("text", row, x=left - 8, y=top + high * (t + 0.65), text_anchor="end"))
    x = left
    for name, values in panels.items():
        parts.append(element("text", name, x=x, y=44))
        for s, column in enumerate(columns[name]):
            at = {"x": x + wide * (s + 0.5), "y": top - 7}
            parts.append(element("text", column, **at, text_anchor="middle", fill_opacity=0.72))
        parts += _cells(values, x, top)
        x += max(wide * len(columns[name]), _LETTER * len(name)) + _GAP
    size = (max(x, 9 * len(title)), top + high * len(rows) + 8)
    return picture(*parts, size=size, label=f"{title}: {', '.join(panels)}", font_size=12)


def _cells(values: Sequence[Sequence[float]], left: float, top: float) -> list[Markup]:
    wide, high = _CELL
    most = max((abs(value) for row in values for value in row), default=0.0) or 1.0
    parts = []
    for t, row in enumerate(values):
        for s, value in enumerate(row):
            x, y = left + wide * s, top + high * t
            colour = ABOVE if value >= 0 else BELOW
            ink: Attributes = {"fill": colour, "fill_opacity": _PALE * abs(value) / most}
            edge: Attributes = {"stroke": "currentColor", "stroke_opacity": 0.2}
            parts.append(element("rect", x=x, y=y, width=wide - 2, height=high - 2, **ink, **edge))
            middle = {"x": x + wide / 2 - 1, "y": y + high / 2 + 3.5}
            parts.append(element("text", f"{value:.3g}", **middle, text_anchor="middle"))
    return parts


def signed_pixels(values: NDArray[Any]) -> NDArray[np.uint8]:
    """(R, C) -> (R, C, 4): the colour tells the sign, its opacity the share of the largest."""
    found = np.asarray(values, np.float64)
    most = np.abs(found).max(initial=0.0) or 1.0
    colours = np.where((found >= 0)[..., None], _rgb(ABOVE), _rgb(BELOW))
    opacity = np.round(255 * np.abs(found) / most)[..., None]
    return np.concatenate((colours, opacity), axis=-1).astype(np.uint8)


def _rgb(colour: str) -> tuple[int, ...]:
    return tuple(bytes.fromhex(colour.removeprefix("#")))
