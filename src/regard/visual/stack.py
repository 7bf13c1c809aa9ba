"""Several pictures below each other in one file."""

from __future__ import annotations

import re
from collections.abc import Sequence

from regard.visual.svg import Markup, element, picture

_BOX = re.compile(r'viewBox="0 0 ([\d.]+) ([\d.]+)"')
_GAP = 24


def stack(pictures: Sequence[str], *, label: str) -> str:
    """One SVG of trusted SVGs (from ``bars``, ``curves``, …), each in its own size."""
    sizes = [_size(one) for one in pictures]
    parts, y = [], 0.0
    for one, (width, height) in zip(pictures, sizes, strict=True):
        placed = Markup(one.replace("<svg ", f'<svg y="{y:g}" width="{width:g}" ', 1))
        parts.append(Markup(placed.replace("<svg ", f'<svg height="{height:g}" ', 1)))
        y += height + _GAP
    width = max((width for width, _ in sizes), default=1.0)
    return picture(element("g", *parts), box=f"0 0 {width:g} {max(1.0, y - _GAP):g}", label=label)


def _size(svg: str) -> tuple[float, float]:
    found = _BOX.search(svg)
    assert found is not None, "a picture of ours begins with its viewBox"
    return float(found[1]), float(found[2])
