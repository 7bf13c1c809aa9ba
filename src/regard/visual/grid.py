"""Tables of letters, for a terminal or a text."""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import Any

from rich.box import HEAVY_HEAD
from rich.console import Console, RenderableType
from rich.table import Column
from rich.table import Table as Grid

from regard.visual.report import Table


def show_table(table: Table, console: Console, *, ruled: bool = False) -> None:
    """Print a table, in pieces where the console is too narrow for it."""
    look: dict[str, Any] = (
        {"box": HEAVY_HEAD} if ruled else {"box": None, "padding": (0, 2, 0, 0), "pad_edge": False}
    )
    for piece in pieces(table, console.width - ruled, margin=3 if ruled else 2):
        first, *others = piece.header
        columns = [Column(other, justify="right", no_wrap=True) for other in others]
        grid = Grid(Column(first, no_wrap=True), *columns, **look)
        for row in piece.rows:
            grid.add_row(*row)
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
    return [
        Table(
            table.caption,
            [table.header[i] for i in some],
            [[row[i] for i in some] for row in table.rows],
        )
        for some in chosen
    ]


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
