"""Tables for other programs: CSV for spreadsheets, LaTeX for papers."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from regard.visual.report import Table

_LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "&": r"\&",
        "%": r"\%",
        "$": r"\$",
        "#": r"\#",
        "_": r"\_",
        "{": r"\{",
        "}": r"\}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "|": r"\textbar{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        # After the end of a row, these two would be taken for its options.
        "[": "{[}",
        "*": "{*}",
        "±": r"\ensuremath{\pm}",
        "×": r"\ensuremath{\times}",
        "−": r"\ensuremath{-}",
        "–": "--",
        "…": r"\ldots{}",
        "\N{NO-BREAK SPACE}": "~",
        "\n": " ",
    }
)


def csv_table(table: Table) -> str:
    """The header and the rows; the caption has no place in it.

    >>> csv_table(Table("any", ["name", "value"], [["a, b", "1"]]))
    'name,value\\n"a, b",1\\n'
    """
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([table.header, *table.rows])
    return text.getvalue()


def latex_table(table: Table) -> str:
    """A floating table that needs no package; all columns but the first are set to the right."""
    lines = [
        r"\begin{table}",
        r"\centering",
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
    return "\n".join(lines) + "\n"


def latex_text(text: str) -> str:
    r"""Any text as LaTeX shows it.

    >>> print(latex_text("50 % of en_fr ± 1"))
    50 \% of en\_fr \ensuremath{\pm} 1
    """
    return text.translate(_LATEX)


def _row(cells: Sequence[str]) -> str:
    return " & ".join(map(latex_text, cells)) + r" \\"
