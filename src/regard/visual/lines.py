"""Two columns of tokens, a line a weight: who asks on the left, who is looked at on the right."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from regard.visual.curves import PALETTE
from regard.visual.payload import View
from regard.visual.svg import Markup, element, picture

_STEP, _GAP = 23, 300
_LETTER = 7.4  # width of an average letter at the size used here; SVG text cannot be measured
_DASHES = (None, "7 3", "2 3")


def lines(view: View, *, heads: Sequence[int] | None = None, threshold: float = 0.1) -> str:
    """One colour a head (a dash as well from the seventh on); weights below ``threshold`` are left
    out, so that sixty tokens stay readable. Point at a line for its number.
    """
    shown = range(len(view.weights)) if heads is None else heads
    left = 12 + _LETTER * max(map(len, view.rows), default=0)
    width = left + _GAP + 12 + _LETTER * max(map(len, view.columns), default=0)
    legend = list(_legend(shown, width))
    top = 34 + 18 * (1 + max((row for _, row in legend), default=0))
    height = top + _STEP * max(len(view.rows), len(view.columns)) + 8
    title = f"{view.name}, layer {view.layer}: weights from {threshold:g} on"
    return picture(
        element("text", title, x=4, y=16, font_weight=600),
        *(mark for mark, _ in legend),
        *_names(view.rows, left - 8, top, "end"),
        *_names(view.columns, left + _GAP + 8, top, "start"),
        element("g", *_strokes(view, shown, threshold, left, top), fill="none"),
        box=f"0 0 {max(width, 8 * len(title)):.0f} {height:.0f}",
        width=f"{max(width, 8 * len(title)):.0f}",
        label=title,
    )


def _strokes(
    view: View, heads: Sequence[int], threshold: float, left: float, top: float
) -> Iterator[Markup]:
    for i, head in enumerate(heads):
        weights = view.head(head)
        # Lines of several heads between the same tokens stand side by side.
        shift = (i - (len(heads) - 1) / 2) * min(2.0, 14 / len(heads))
        for t, row in enumerate(view.rows):
            for s, column in enumerate(view.columns):
                weight = float(weights[t, s])
                if weight >= threshold:
                    text = f"head {head}: {row} → {column}: {weight:.6g}"
                    ends = _middle(top, t) + shift, _middle(top, s) + shift
                    yield _stroke(head, weight, text, left, *ends)


def _stroke(head: int, weight: float, text: str, x: float, y1: float, y2: float) -> Markup:
    shown = min(1.0, max(0.0, weight))
    near, far, end = x + _GAP / 3, x + 2 * _GAP / 3, x + _GAP
    return element(
        "path",
        element("title", text),
        d=f"M{x:.1f} {y1:.1f}C{near:.1f} {y1:.1f} {far:.1f} {y2:.1f} {end:.1f} {y2:.1f}",
        stroke=PALETTE[head % len(PALETTE)],
        stroke_width=0.6 + 3.4 * shown,
        stroke_opacity=0.25 + 0.75 * shown,
        stroke_dasharray=_dash(head),
    )


def _legend(heads: Sequence[int], width: float) -> Iterator[tuple[Markup, int]]:
    """A mark a head and the row it stands in."""
    wide = 88
    a_row = max(1, int(width // wide))
    for i, head in enumerate(heads):
        x, y = 4 + wide * (i % a_row), 36 + 18 * (i // a_row)
        line = element(
            "path",
            d=f"M{x} {y - 4}h22",
            stroke=PALETTE[head % len(PALETTE)],
            stroke_width=4,
            stroke_dasharray=_dash(head),
        )
        yield element("g", line, element("text", f"head {head}", x=x + 27, y=y)), i // a_row


def _names(tokens: Sequence[str], x: float, top: float, anchor: str) -> Iterator[Markup]:
    for i, token in enumerate(tokens):
        yield element("text", token, x=x, y=_middle(top, i) + 4.5, text_anchor=anchor)


def _middle(top: float, i: int) -> float:
    return top + _STEP * (i + 0.5)


def _dash(head: int) -> str | None:
    return _DASHES[head // len(PALETTE) % len(_DASHES)]
