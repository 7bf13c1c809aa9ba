"""Attention as a matrix of cells: who asks down the side, who is looked at along the top."""

from __future__ import annotations

from collections.abc import Sequence

from regard.visual.svg import Markup, element, picture

_CELL = 26
_LETTER = 7.9  # width of an average letter at the size used here; SVG text cannot be measured
_INK = "#0072B2"  # of Okabe & Ito; strength is told by opacity, which works on light and dark


def matrix(
    weights: Sequence[Sequence[float]], rows: Sequence[str], columns: Sequence[str], *, title: str
) -> str:
    """Weights (T, S) between 0 and 1 with the tokens of both sides; point at a cell for its number.

    The picture grows with the tokens, so that no two of them overlap.
    """
    left = _LETTER * max(map(len, rows), default=0) + 12
    top = 34 + _LETTER * max(map(len, columns), default=0) * 0.75
    width = max(left + _CELL * len(columns) + 60, 12 + 1.1 * _LETTER * len(title))
    height = top + _CELL * len(rows) + 8
    names = [_row_name(name, left - 6, _middle(top, t)) for t, name in enumerate(rows)]
    heads = [_column_name(name, _middle(left, s), top - 6) for s, name in enumerate(columns)]
    cells = [
        _cell(left + _CELL * s, top + _CELL * t, float(weights[t][s]), f"{row} → {column}")
        for t, row in enumerate(rows)
        for s, column in enumerate(columns)
    ]
    caption = element("text", title, x=4, y=16, font_weight=600)
    return picture(
        caption,
        *heads,
        *names,
        *cells,
        box=f"0 0 {width:.0f} {height:.0f}",
        width=f"{width:.0f}",
        label=title,
    )


def _middle(start: float, i: int) -> float:
    return start + _CELL * i + _CELL / 2


def _row_name(name: str, x: float, y: float) -> Markup:
    return element("text", name, x=f"{x:.1f}", y=f"{y + 4.5:.1f}", text_anchor="end")


def _column_name(name: str, x: float, y: float) -> Markup:
    return element("text", name, transform=f"translate({x:.1f} {y:.1f}) rotate(-45)")


def _cell(x: float, y: float, weight: float, what: str) -> Markup:
    shown = min(1.0, max(0.0, weight))
    return element(
        "rect",
        element("title", f"{what}: {weight:.3f}"),
        x=f"{x:.1f}",
        y=f"{y:.1f}",
        width=_CELL - 1,
        height=_CELL - 1,
        fill=_INK,
        fill_opacity=f"{shown:.3f}",
        stroke="currentColor",
        stroke_opacity="0.12",
    )
