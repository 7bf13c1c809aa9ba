"""Tables for other programs: CSV for spreadsheets, LaTeX for papers."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from regard.visual.latex import DEFINITION, latex_text
from regard.visual.report import Table

_FONTS = (
    ("", 5.0, 6),
    (r"\small", 4.6, 5),
    (r"\footnotesize", 4.3, 4),
    (r"\scriptsize", 4.0, 3),
    (r"\tiny", 3.4, 2),
)
"""Sizes of LaTeX's letters: command, points that a letter takes, points beside a column."""
_LINE = 345
"""Points of a line in LaTeX's own classes."""


def csv_table(table: Table) -> str:
    """The header and the rows; the caption has no place in it.

    >>> csv_table(Table("any", ["name", "value"], [["a, b", "1"]]))
    'name,value\\n"a, b",1\\n'
    """
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([table.header, *table.rows])
    return text.getvalue()


def latex_table(table: Table) -> str:
    """A floating table that needs no package; all columns but the first are set to the right.

    Its letters are as small as its width asks for.
    """
    lines = [
        r"\begin{table}",
        r"\centering",
        *_small(table),
        rf"\begin{{tabular}}{{l{'r' * (len(table.header) - 1)}}}",
        r"\hline",
        _row(table.header),
        r"\hline",
        *map(_row, table.rows),
        r"\hline",
        r"\end{tabular}",
        rf"\caption{{{latex_text(table.caption)}}}",
        r"\end{table}",
    ]
    text = "\n".join(lines) + "\n"
    return f"{DEFINITION}\n{text}" if r"\regardchar" in text else text


def _small(table: Table) -> list[str]:
    """The largest letters in which a line holds the table, or else the smallest."""
    columns = list(zip(table.header, *table.rows, strict=True))
    letters = sum(max(map(len, column)) for column in columns)
    fitting = [font for font in _FONTS if letters * font[1] + 2 * font[2] * len(columns) <= _LINE]
    command, _, beside = fitting[0] if fitting else _FONTS[-1]
    return [command, rf"\setlength{{\tabcolsep}}{{{beside}pt}}"] if command else []


def _row(cells: Sequence[str]) -> str:
    return " & ".join(map(latex_text, cells)) + r" \\"
