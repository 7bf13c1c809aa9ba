"""Bars with their names and numbers, as one piece of SVG."""

from __future__ import annotations

from collections.abc import Mapping

from regard.visual.curves import PALETTE
from regard.visual.svg import Markup, element, picture

_WIDTH, _ROW, _THICK = 420, 26, 14
_LETTER = 6.8  # width of an average letter at the size used here; SVG text cannot be measured


def bars(values: Mapping[str, float], *, title: str, unit: str = "", digits: int = 2) -> str:
    """One horizontal bar a value, from 0; the number stands at its end. Values are not negative."""
    texts = [f"{value:,.{digits}f}{unit}" for value in values.values()]
    left = 12 + _LETTER * max(map(len, values), default=0)
    room = _WIDTH - left - 12 - _LETTER * max(map(len, texts), default=0)
    largest = max(values.values(), default=0.0) or 1.0
    rows = [
        _bar(name, text, left, room * max(0.0, value) / largest, 34 + _ROW * i)
        for i, ((name, value), text) in enumerate(zip(values.items(), texts, strict=True))
    ]
    return picture(
        element("text", title, x=0, y=17, font_size=15, font_weight=600),
        *rows,
        box=f"0 0 {_WIDTH} {40 + _ROW * len(values)}",
        label=f"{title}: "
        + ", ".join(f"{name} {text}" for name, text in zip(values, texts, strict=True)),
        font_size=12,
    )


def _bar(name: str, text: str, left: float, length: float, y: float) -> Markup:
    return element(
        "g",
        element("text", name, x=left - 8, y=y + 11, text_anchor="end"),
        element("rect", x=left, y=y, width=max(length, 1.0), height=_THICK, fill=PALETTE[0], rx=2),
        element("text", text, x=left + length + 6, y=y + 11),
    )
