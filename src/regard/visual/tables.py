"""A table in every form: HTML, CSV for spreadsheets, LaTeX for papers, letters for a terminal.

LaTeX shows any text without a package. What it knows by itself stays; much of the rest has a
command. Whatever is left, such as 中 or an emoji, goes through ``\\regardchar``: where the document
has the character it is shown, and elsewhere its number. So a table compiles with every engine.
Letters such as ą, which LaTeX's first font encoding lacks, are taken for granted: who writes them
loads ``[T1]{fontenc}``.
"""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from rich.box import HEAVY_HEAD
from rich.console import Console, RenderableType
from rich.table import Column
from rich.table import Table as Grid

from regard.visual.svg import Markup, element, printable

# Digits, perhaps an exponent, perhaps a short unit; or a dash where there is no number.
_NUMBER = re.compile(r"[+\-−]?[\d.,]+(e[+\-−]?\d+)?( ?[%×µA-Za-z]{1,5})?|[–—-]?")
# Sizes of LaTeX's letters: command, points that a letter takes, points beside a column.
_FONTS: Sequence[tuple[str, float, int]] = (
    *(("", 5.0, 6), (r"\small", 4.6, 5), (r"\footnotesize", 4.3, 4)),
    *((r"\scriptsize", 4.0, 3), (r"\tiny", 3.4, 2)),
)
_LINE = 345  # points of a line in LaTeX's own classes
DEFINITION = (
    r"\providecommand{\regardchar}[2]{\ifdefined\Umathchar #1\else"
    r"\ifcsname u8:\detokenize{#1}\endcsname #1\else #2\fi\fi}"
)
r"""Of ``\regardchar``: the character, or its number where pdfLaTeX has not been told of it."""

_TEXT = {"\\": "backslash", "~": "asciitilde", "^": "asciicircum", "|": "bar", "<": "less"}
_TEXT |= {">": "greater", "`": "asciigrave", "–": "endash", "▁": "visiblespace"}  # ▁: a space
_MATH = {"±": r"\pm", "×": r"\times", "−": "-", "«": r"\ll", "»": r"\gg", "∅": r"\emptyset"}
_MATH |= {"Δ": r"\Delta", "→": r"\rightarrow"}
_COMMANDS = {
    **{c: f"\\{c}" for c in "&%$#_{}"},
    **{c: rf"\text{name}{{}}" for c, name in _TEXT.items()},
    **{c: rf"\ensuremath{{{name}}}" for c, name in _MATH.items()},
    **{c: f"{{{c}}}" for c in "[*"},  # after the end of a row, they would be taken for its options
    **dict.fromkeys("\n\t", " "),
    "…": r"\ldots{}",
    "\N{NO-BREAK SPACE}": "~",
}
_KNOWN = "¡¢£¥§©ª®°²³´µ¶·¹º¼½¾¿—‘’‚“”„†‡•‰€™"


@dataclass(frozen=True, slots=True)
class Table:
    """Columns whose cells are all numbers are set to the right."""

    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]


def table_text(table: Table, width: int) -> str:
    """The caption, and the table in lines of at most ``width`` letters, to be printed."""
    console, text = plain_console(width)
    show_table(table, console)
    lines = [table.caption, *text.getvalue().split("\n")]
    return "\n".join(line.rstrip() for line in lines).rstrip()


def table_html(table: Table) -> Markup:
    """A section; the table scrolls in a box of its own, so that a phone keeps the page still."""
    columns = zip(*table.rows, strict=True)
    kinds = ["number" if all(map(_NUMBER.fullmatch, cells)) else None for cells in columns]
    kinds = kinds or [None] * len(table.header)
    head = _html_row("th", table.header, kinds)
    body = (_html_row("td", row, kinds) for row in table.rows)
    grid = element("table", element("thead", head), element("tbody", *body))
    box = element("div", grid, class_="scroll", role="region", aria_label=table.caption, tabindex=0)
    return element("section", element("h2", table.caption), box)


def csv_table(table: Table) -> str:
    """The header and the rows; the caption has no place in it.

    >>> csv_table(Table("any", ["name", "value"], [["a, b", "1"]]))
    'name,value\\n"a, b",1\\n'
    """
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([table.header, *table.rows])
    return text.getvalue()


def latex_table(table: Table) -> str:
    """A floating table without packages, in letters as small as its width asks for."""
    header, *rows = (
        " & ".join(map(latex_text, row)) + r" \\" for row in [table.header, *table.rows]
    )
    lines = [
        *(r"\begin{table}", r"\centering", *_small(table)),
        rf"\begin{{tabular}}{{l{'r' * (len(table.header) - 1)}}}",
        *(r"\hline", header, r"\hline", *rows, r"\hline", r"\end{tabular}"),
        *(rf"\caption{{{latex_text(table.caption)}}}", r"\end{table}"),
    ]
    text = "\n".join(lines) + "\n"
    return f"{DEFINITION}\n{text}" if r"\regardchar" in text else text


def latex_text(text: str) -> str:
    r"""Every character as itself.

    >>> print(latex_text("50 % of en_fr ± 1"))
    50 \% of en\_fr \ensuremath{\pm} 1
    """
    shown = "".join(map(_character, unicodedata.normalize("NFC", text)))
    return re.sub("-(?=-)", "-{}", shown)  # two of them would become one dash


def show_table(table: Table, console: Console, *, ruled: bool = False) -> None:
    """Print a table, in pieces where the console is too narrow for it."""
    plain = {"box": None, "padding": (0, 2, 0, 0), "pad_edge": False}
    look: dict[str, Any] = {"box": HEAVY_HEAD} if ruled else plain
    for piece in pieces(table, console.width - ruled, margin=3 if ruled else 2):
        first, *others = map(printable, piece.header)
        columns = [Column(other, justify="right", no_wrap=True) for other in others]
        grid = Grid(Column(first, no_wrap=True), *columns, **look)
        for row in piece.rows:
            grid.add_row(*map(printable, row))
        console.print(grid)


def pieces(table: Table, width: int, margin: int) -> list[Table]:
    """The table in pieces that fit the width, each with the first column and one more at least."""
    columns = list(zip(table.header, *table.rows, strict=True))
    sizes = [max(map(len, column)) + margin for column in columns]
    chosen = [[0]]
    for i in range(1, len(columns)):
        if len(chosen[-1]) > 1 and sum(sizes[j] for j in [*chosen[-1], i]) > width:
            chosen.append([0])
        chosen[-1].append(i)
    found = []
    for some in chosen:
        header, *rows = map(list, zip(*(columns[i] for i in some), strict=True))
        found.append(Table(table.caption, header, rows))
    return found


def plain_console(width: int) -> tuple[Console, io.StringIO]:
    """A console without colours, and the text that it writes."""
    text = io.StringIO()
    return Console(markup=False, highlight=False, width=width, file=text, color_system=None), text


def plain_text(parts: Iterable[RenderableType], width: int) -> str:
    """What a console would show, as a text without colours or spaces at the ends of lines."""
    console, text = plain_console(width)
    for part in parts:
        console.print(part, end="")
    return "\n".join(line.rstrip() for line in text.getvalue().rstrip().split("\n"))


def _html_row(cell: str, texts: Sequence[str], kinds: Sequence[str | None]) -> Markup:
    scope = "col" if cell == "th" else None
    cells = zip(texts, kinds, strict=True)
    return element("tr", *(element(cell, text, scope=scope, class_=kind) for text, kind in cells))


def _small(table: Table) -> list[str]:
    """The largest letters in which a line holds the table, or else the smallest."""
    columns = list(zip(table.header, *table.rows, strict=True))
    letters = sum(max(map(len, column)) for column in columns)
    fitting = [font for font in _FONTS if letters * font[1] + 2 * font[2] * len(columns) <= _LINE]
    command, _, beside = fitting[0] if fitting else _FONTS[-1]
    return [command, rf"\setlength{{\tabcolsep}}{{{beside}pt}}"] if command else []


def _character(c: str) -> str:
    if c in _COMMANDS:
        return _COMMANDS[c]
    latin = c.isalpha() and c < "\u0180"  # with the letters of most of Europe
    if (" " <= c < "\x7f") or latin or c in _KNOWN:
        return c
    number = f"U+{ord(c):04X}"
    # What is no sign at all, such as a bell or a direction, would disturb TeX even as an argument.
    return rf"\regardchar{{{c}}}{{{number}}}" if unicodedata.category(c)[0] != "C" else number
