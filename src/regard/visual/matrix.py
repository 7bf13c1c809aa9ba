"""Attention as a matrix of cells: who asks down the side, who is looked at along the top.

As SVG the strength of the ink tells the weight. In a terminal it is a block of colour with its
tenths as a digit; where a terminal has fewer colours rich takes the nearest, and where it has none
the digits remain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from regard.visual.payload import (
    PAIR_SEPARATOR,
    Payload,
    Selected,
    answer_of,
    choice_lines,
    drawn,
    probability_line,
)
from regard.visual.picture_maps import picture_maps, shows_picture
from regard.visual.svg import Attributes, Markup, element, picture, printable
from regard.visual.theme import INK, ON_INK, number, weight_opacity, weight_rgb

_CELL = 26
_LETTER = 7.9  # width of an average letter at the size used here; SVG text cannot be measured
_LINE, _SCALE = 18, 120  # height of a line; width of the scale of the ink
_LEAST, _STRONG, _FULL = 0.005, 0.8, 0.995  # weights: written; in white; written as 1
_BLOCK = 2  # letters of a cell in a terminal
_TALLEST = 12  # letters of a column's name there, which is written downwards


def matrix(
    weights: Sequence[Sequence[float]],
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    title: str,
    axes: tuple[str, str] | None = None,
) -> str:
    """Weights (T, S) between 0 and 1 with both sides' tokens; the picture grows with them.

    ``axes`` are the names of rows and columns, such as target and source; with them weights are
    written into their cells, and a scale below says what the ink stands for.
    """
    left = _LETTER * max(map(len, rows), default=0) + 12
    top = 34 + _LETTER * max(map(len, columns), default=0) * 0.75 + (_LINE if axes else 0)
    width = max(left + _CELL * len(columns) + 60, 12 + 1.1 * _LETTER * len(title))
    height = top + _CELL * len(rows) + 8
    parts = [element("text", title, x=4, y=16, font_weight=600)]
    if axes:
        said = f"{axes[0]} ↓  looks at {axes[1]} →"
        parts += [element("text", said, x=4, y=16 + _LINE), *_scale(left, height)]
        width = max(width, left + _SCALE + 90, 12 + _LETTER * len(said))
        height += _LINE + 8
    for s, column in enumerate(columns):
        at = f"translate({left + _CELL * (s + 0.5):.1f} {top - 6:.1f}) rotate(-45)"
        parts.append(element("text", column, transform=at))
    for t, row in enumerate(rows):
        y = f"{top + _CELL * (t + 0.5) + 4.5:.1f}"
        parts.append(element("text", row, x=f"{left - 6:.1f}", y=y, text_anchor="end"))
    edge: Attributes = {"stroke": "currentColor", "stroke_opacity": "0.12"}
    for t, row in enumerate(rows):
        for s, column in enumerate(columns):
            weight = float(weights[t][s])
            at_cell = {"x": f"{left + _CELL * s:.1f}", "y": f"{top + _CELL * t:.1f}"}
            size = {"width": _CELL - 1, "height": _CELL - 1}
            ink = {"fill": INK, "fill_opacity": weight_opacity(weight)}
            told = element("title", f"{row} → {column}: {number(weight)}")
            parts.append(element("rect", told, **at_cell, **size, **ink, **edge))
            if axes and weight >= _LEAST:
                parts.append(_written(weight, left + _CELL * s, top + _CELL * t))
    return picture(*parts, size=(width, height), label=title)


_LEGEND = "digits are tenths, cut off: 9 is 0.9 to 1, · is below 0.1"


def _what_if(edit: Mapping[str, Any]) -> str:
    """An edit in words.

    >>> _what_if({"kind": "ablate", "name": "decoder.cross", "layer": 0, "head": 1})
    'what if: ablate decoder.cross, layer 0, head 1'
    """
    rest = [f"{key} {value}" for key, value in edit.items() if key not in ("kind", "name")]
    what = " ".join(filter(None, (edit["kind"].replace("_", " "), edit.get("name"))))
    return f"what if: {', '.join([what, *rest])}"


def _written(weight: float, x: float, y: float) -> Markup:
    """A weight in its cell, in hundredths, and in white where the ink is strong."""
    hundredths = f"{weight:.2f}".removeprefix("0") if weight < _FULL else "1"
    at = {"x": f"{x + _CELL / 2 - 0.5:.1f}", "y": f"{y + _CELL / 2 + 3:.1f}"}
    colour = ON_INK if weight > _STRONG else None
    return element("text", hundredths, **at, font_size=10, text_anchor="middle", fill=colour)


def _scale(x: float, y: float) -> list[Markup]:
    """What the strength of the ink stands for, from 0 to 1."""
    n, start = 10, x + 12
    wide = _SCALE / n
    steps = [
        element("rect", x=start + wide * i, y=y, width=wide, height=12, fill=INK,
                fill_opacity=weight_opacity((i + 0.5) / n))
        for i in range(n)
    ]  # fmt: skip
    edge: Attributes = {"fill": "none", "stroke": "currentColor", "stroke_opacity": 0.4}
    return [
        element("text", "0", x=x, y=y + 10, font_size=11),
        *steps,
        element("rect", x=start, y=y, width=_SCALE, height=12, **edge),
        element("text", "1  weight", x=start + _SCALE + 5, y=y + 10, font_size=11),
    ]


def look_text(
    payload: Payload,
    selected: Selected | None = None,
    *,
    width: int = 80,
    coloured: bool = True,
) -> Text:
    """Sentence, translation and one attention; by default the last layer, the mean of its heads.

    Weights on patches are drawn over their picture, or without colours told as digits.
    """
    chosen = selected or Selected()
    text = Text()
    for one in (payload.get("source") or "").split(PAIR_SEPARATOR):
        text.append(f"{_safe(one)}\n" if one else "")
    came = answer_of(payload)
    if came or "outcome" not in payload:
        text.append(f"{_safe(came)}\n", "bold")
    for line in filter(None, (*choice_lines(payload), probability_line(payload))):
        text.append(f"{_safe(line)}\n")
    for edit in payload.get("edits", ()):
        text.append(f"{_safe(_what_if(edit))}\n")
    text.append("\n")
    if not payload["attentions"] and chosen.name is None:
        return text.append("this system does not attend\n")
    if shows_picture(payload, chosen):
        return text.append(_maps_text(payload, chosen, width, coloured))
    one = drawn(payload, chosen)
    text.append(f"{one.title}\n{_LEGEND}\n")
    return text.append(matrix_text(one.weights, one.rows, one.columns, width=width))


def _maps_text(payload: Payload, selected: Selected, width: int, coloured: bool) -> Text:
    found = picture_maps(payload, selected)
    if coloured:
        return Text(f"{found.title}; the brighter, the more\n").append(found.text(width))
    text = Text(f"{found.title}, as shares of the largest weight\n{_LEGEND}\n")
    for one in found.maps:
        rows, columns = (tuple(map(str, range(n))) for n in one.weights.shape)
        text.append(f"{_safe(one.told)}\n")
        shares = one.weights / (one.weights.max() or 1)
        text.append(matrix_text(shares, rows, columns, width=width))
    return text


def matrix_text(
    weights: Any, rows: Sequence[str], columns: Sequence[str], *, width: int = 80
) -> Text:
    """Weights (T, S) with their tokens; too many columns follow in pieces, one below the other."""
    names = [_safe(row) for row in rows]
    widest = max(map(cell_len, names), default=0)
    margin = max(1, min(widest, width // 3))
    n = max(1, (width - margin - 1) // _BLOCK)
    pieces = []
    for start in range(0, len(columns), n):
        part = range(start, min(start + n, len(columns)))
        piece = _column_names([_safe(columns[s]) for s in part], margin)
        for t, name in enumerate(names):
            piece.append(_fitted(name, margin) + " ")
            for s in part:
                piece.append(*_block(float(weights[t][s])))
            piece.append("\n")
        pieces.append(piece)
    return Text("\n").join(pieces)


def _safe(text: str) -> str:
    """On one line, which no text can leave or steer; the end of a line shows."""
    return printable(text.replace("\n", "↵"))


def _column_names(names: Sequence[str], margin: int) -> Text:
    """Each written downwards, to end just above its column."""
    cut = [list(name if len(name) <= _TALLEST else name[: _TALLEST - 1] + "…") for name in names]
    height = max(map(len, cut), default=0)
    text = Text()
    for line in range(height):
        text.append(" " * (margin + 1))
        for letters in cut:
            i = line - (height - len(letters))
            text.append(set_cell_size(letters[i] if i >= 0 else "", _BLOCK))
        text.append("\n")
    return text


def _block(weight: float) -> tuple[str, str]:
    share = min(1.0, max(0.0, weight))
    digit = min(9, int(share * 10 + 1e-9))
    red, green, blue = weight_rgb(share)
    ink = "black" if share > 0.45 else "white"
    return f"{digit or '·'} ", f"{ink} on rgb({red},{green},{blue})"


def _fitted(name: str, width: int) -> str:
    """To the right in its margin, cut where it is too wide."""
    wide = cell_len(name)
    if wide > width:
        return set_cell_size(name, width - 1) + "…"
    return " " * (width - wide) + name
