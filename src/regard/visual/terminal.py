"""Attention in a terminal: a block of colour a weight, with its tenths as a digit.

The colours run from dark blue to yellow, which colour-blind readers tell apart too. Where a
terminal has fewer colours rich takes the nearest, and where it has none the digits remain.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from regard.visual.outcome import came_out, choices_told
from regard.visual.payload import PAIRED, Payload, Selected, selected_view
from regard.visual.svg import printable

_RAMP = ((0, 32, 76), (58, 79, 110), (124, 123, 120), (188, 172, 108), (255, 233, 69))
_CELL = 2
_TALLEST = 12  # letters of a column's name, which is written downwards


def look_text(payload: Payload, selected: Selected | None = None, *, width: int = 80) -> Text:
    """Sentence, translation and one attention; by default the last layer, the mean of its heads."""
    chosen = selected or Selected()
    text = Text()
    for one in (payload.get("source") or "").split(PAIRED):
        text.append(f"{_safe(one)}\n" if one else "")
    came = came_out(payload)
    if came or "outcome" not in payload:
        text.append(f"{_safe(came)}\n", "bold")
    for line in choices_told(payload):
        text.append(f"{_safe(line)}\n")
    text.append("\n")
    if not payload["attentions"] and chosen.name is None:
        return text.append("this system does not attend\n")
    one = selected_view(payload, chosen)
    text.append(f"{one.title(chosen.head)}; digits are tenths\n")
    return text.append(matrix_text(one.head(chosen.head), one.rows, one.columns, width=width))


def matrix_text(
    weights: Any, rows: Sequence[str], columns: Sequence[str], *, width: int = 80
) -> Text:
    """Weights (T, S) with their tokens; too many columns follow in pieces, one below the other."""
    names = [_safe(row) for row in rows]
    widest = max(map(cell_len, names), default=0)
    margin = max(1, min(widest, width // 3))
    n = max(1, (width - margin - 1) // _CELL)
    pieces = [
        _piece(weights, names, columns, range(start, min(start + n, len(columns))), margin)
        for start in range(0, len(columns), n)
    ]
    return Text("\n").join(pieces)


def _safe(text: str) -> str:
    """On one line, which no text can leave or steer; the end of a line shows."""
    return printable(text.replace("\n", "↵"))


def _piece(
    weights: Any, names: Sequence[str], columns: Sequence[str], part: range, margin: int
) -> Text:
    text = _column_names([_safe(columns[s]) for s in part], margin)
    for t, name in enumerate(names):
        text.append(_fitted(name, margin) + " ")
        for s in part:
            text.append(*_block(float(weights[t][s])))
        text.append("\n")
    return text


def _column_names(names: Sequence[str], margin: int) -> Text:
    """Each written downwards, to end just above its column."""
    cut = [list(name if len(name) <= _TALLEST else name[: _TALLEST - 1] + "…") for name in names]
    height = max(map(len, cut), default=0)
    text = Text()
    for line in range(height):
        text.append(" " * (margin + 1))
        for letters in cut:
            i = line - (height - len(letters))
            text.append(set_cell_size(letters[i] if i >= 0 else "", _CELL))
        text.append("\n")
    return text


def _block(weight: float) -> tuple[str, str]:
    """The text of a cell and its style."""
    share = min(1.0, max(0.0, weight))
    digit = min(9, int(share * 10 + 1e-9))
    place = share * (len(_RAMP) - 1)
    low = min(int(place), len(_RAMP) - 2)
    mixed = [
        round(a + (b - a) * (place - low)) for a, b in zip(_RAMP[low], _RAMP[low + 1], strict=True)
    ]
    ink = "black" if share > 0.45 else "white"
    return f"{digit or '·'} ", f"{ink} on rgb({mixed[0]},{mixed[1]},{mixed[2]})"


def _fitted(name: str, width: int) -> str:
    """To the right in its margin, cut where it is too wide."""
    wide = cell_len(name)
    if wide > width:
        return set_cell_size(name, width - 1) + "…"
    return " " * (width - wide) + name
