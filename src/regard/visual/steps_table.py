"""The six steps of one token in one head: as text, SVG, HTML, CSV and LaTeX.

1 the query, 2 each key, 3 their score, 4 scaled, 5 softmax, 6 the weighted values and their sum.
The tables show the first numbers of each vector; the CSV has all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.cells import cell_len
from rich.table import Table as RichTable
from rich.text import Text

from regard.visual.svg import element, picture, printable
from regard.visual.tables import Table, csv_table, latex_table, table_html
from regard.visual.theme import INK, exact, number

Steps = Mapping[str, Any]
_SHOWN = 3  # numbers of a vector
# Whether a key has a line of its own below it for the value, and the numbers of a vector, for ever
# narrower terminals; no step is ever left out.
_NARROWER = ((False, 3), *((True, shown) for shown in (3, 2, 1)))
_KEY, _VALUE = 1, 5  # columns
_HEADER = ("looked at", "2 key", "3 score", "4 scaled", "5 softmax", "value", "6 weighted")
_ONE = {"scores": "score", "weights": "weight", "keys": "key", "values": "value"}
_LETTER, _ROW = 7.2, 24


def steps_table(steps: Steps, shown: int = _SHOWN) -> Table:
    """A row a key, then the sum and what W_o makes of it; ``shown`` numbers of each vector."""

    def vector(values: Sequence[float]) -> str:
        return _vector(values, shown)

    rows = []
    for s, column in enumerate(steps["columns"]):
        key, value, weighted = (vector(steps[name][s]) for name in ("keys", "values", "weighted"))
        seen = steps["visible"][s]
        score, scaled = (number(steps[name][s] if seen else None) for name in ("scores", "scaled"))
        weight = number(steps["weights"][s])
        rows.append((column, key, score, scaled, weight, value, weighted))
    header = list(_HEADER)
    if steps.get("prior") is not None:
        header[4] = "5 softmax × prior"
    total = number(sum(map(float, steps["weights"])))
    rows.append(("sum", "", "", "", total, "", vector(steps["sum"])))
    for name, said in (("projected", "through W_o"), ("residual", "into stream")):
        if steps.get(name) is not None:
            rows.append((said, "", "", "", "", "", vector(steps[name])))
    where = f"{steps['name']}, layer {steps['layer']}, head {steps['head']}"
    scale = steps.get("scale")
    scaling = "scores are not scaled" if scale is None else f"scores × {exact(scale)}"
    caption = f"{steps['row']} in {where}: 1 query {_vector(steps['query'])}, {scaling}"
    return Table(caption, header, rows)


def steps_text(steps: Steps, *, width: int = 80) -> RichTable:
    """For the terminal; in a narrow one values stand below their keys, with fewer numbers."""
    for below, shown in _NARROWER:
        plain = steps_table(steps, shown)
        cells = [[printable(cell) for cell in row] for row in [plain.header, *plain.rows]]
        if below:
            cells = [_value_below(row) for row in cells]
        columns = zip(*cells, strict=True)
        widest = [max(cell_len(x) for cell in one for x in cell.split("\n")) for one in columns]
        if 1 + sum(3 + one for one in widest) <= width:  # with rules and margins
            break
    table = RichTable(title=Text(printable(plain.caption)), title_justify="left")
    for i, name in enumerate(cells[0]):
        table.add_column(name, justify="right" if i in (2, 3, 4) else "left")
    for s, row in enumerate(cells[1:]):
        table.add_row(*map(Text, row), end_section=s == len(steps["columns"]) - 1)
    return table


def _value_below(row: Sequence[str]) -> list[str]:
    """The cells of a row, the value on a second line under the key."""
    both = "\n".join(cell for cell in (row[_KEY], row[_VALUE]) if cell)
    return [row[0], both, *row[_KEY + 1 : _VALUE], *row[_VALUE + 1 :]]


def steps_csv(steps: Steps) -> str:
    """Every number, one per line: quantity, token and its position, index in a vector, value."""
    rows: list[list[str]] = []

    def add(what: str, token: str, at: int, values: Sequence[float | None]) -> None:
        for i, value in enumerate(values):
            rows.append([what, token, str(at), str(i), "" if value is None else repr(value)])

    for what in ("query", "sum", "projected", "residual"):
        add(what, steps["row"], steps["token"], steps.get(what) or ())
    for s, column in enumerate(steps["columns"]):
        for what in ("scores", "scaled", "weights"):
            add(_ONE.get(what, what), column, s, [steps[what][s]])
        for what in ("keys", "values", "weighted"):
            add(_ONE.get(what, what), column, s, steps[what][s])
    return csv_table(Table("", ["quantity", "token", "position", "index", "value"], rows))


def steps_latex(steps: Steps) -> str:
    """The readable table for a paper."""
    return latex_table(steps_table(steps))


def steps_html(steps: Steps) -> str:
    """The readable table as a piece of HTML without script; scrolls in a box of its own."""
    return element("div", table_html(steps_table(steps)), style="max-width:100%;overflow-x:auto")


def steps_svg(steps: Steps) -> str:
    """The readable table as a picture, with a bar beside each weight."""
    table = steps_table(steps)
    cells = [table.header, *table.rows]
    wide = [16 + _LETTER * max(map(len, column)) for column in zip(*cells, strict=True)]
    starts = [8 + sum(wide[:i]) for i in range(len(wide))]
    width = max(8 + sum(wide), _LETTER * 1.1 * len(table.caption))
    texts = [
        element("text", cell, x=starts[i], y=52 + _ROW * r, font_weight=None if r else 600)
        for r, row in enumerate(cells)
        for i, cell in enumerate(row)
    ]
    bars = []
    for s, weight in enumerate(steps["weights"]):
        long = (wide[4] - 4) * min(1.0, max(0.0, float(weight)))
        at = {"x": starts[4] - 4, "y": 52 + _ROW * (s + 1) - 15}
        bars.append(element("rect", **at, height=20, fill=INK, fill_opacity="0.3", width=long))
    title = element("text", table.caption, x=4, y=18, font_weight=600)
    size = (width, 52 + _ROW * len(cells))
    return picture(title, *bars, *texts, size=size, label=table.caption)


def _vector(values: Sequence[float], shown: int = _SHOWN) -> str:
    more = ", …" if len(values) > shown else ""
    return f"({', '.join(map(number, values[:shown]))}{more})"
