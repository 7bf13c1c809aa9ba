"""Attention as a TikZ picture, for LaTeX slides: a heat map with the numbers in its cells."""

from __future__ import annotations

from collections.abc import Sequence

from regard.visual.tables import DEFINITION, latex_text
from regard.visual.theme import INK

_DARK = 0.5
"""From this weight on, numbers are white."""


def matrix_tikz(
    weights: Sequence[Sequence[float]], rows: Sequence[str], columns: Sequence[str], *, title: str
) -> str:
    r"""Weights (T, S) between 0 and 1 with both sides' tokens; needs ``\usepackage{tikz}``.

    A cell is 6 mm wide; ``\resizebox`` fits the picture to a slide.
    """
    lines = [
        r"\begin{tikzpicture}[x=6mm,y=6mm,font=\footnotesize] % needs \usepackage{tikz}",
        rf"\definecolor{{regard}}{{HTML}}{{{INK.removeprefix('#')}}}",
        rf"\node[anchor=east,font=\bfseries\footnotesize] at ({len(columns)},"
        rf"{-len(rows) - 0.6:g}) {{{latex_text(title)}}};",
    ]
    for s, column in enumerate(columns):
        at = rf"({s + 0.5:g},0.15)"
        lines.append(rf"\node[rotate=45,anchor=west] at {at} {{{latex_text(column)}}};")
    for t, row in enumerate(rows):
        lines.append(rf"\node[anchor=east] at (0,{-t - 0.5:g}) {{{latex_text(row)}}};")
        for s, weight in enumerate(weights[t]):
            lines.append(_cell(t, s, min(1.0, max(0.0, float(weight)))))
    lines.append(r"\end{tikzpicture}")
    if any(r"\regardchar" in line for line in lines):
        lines.insert(1, DEFINITION)
    return "\n".join(lines) + "\n"


def _cell(t: int, s: int, weight: float) -> str:
    colour = "white" if weight >= _DARK else "black"
    return (
        rf"\fill[regard,opacity={weight:.3f}] ({s},{-t}) rectangle ({s + 1},{-t - 1});"
        rf"\node[font=\tiny,text={colour}] at ({s + 0.5:g},{-t - 0.5:g}) {{{weight:.2f}}};"
    )
