"""A look in the form of any file we write: HTML, SVG, JSON, CSV or LaTeX."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from regard.core.errors import ConfigError
from regard.core.registry import did_you_mean
from regard.visual.html import look_html
from regard.visual.matrix import matrix
from regard.visual.payload import Payload, Selected, drawn
from regard.visual.steps_table import steps_csv, steps_latex, steps_svg
from regard.visual.tables import Table, csv_table, latex_table
from regard.visual.theme import number

FORMS = ("html", "svg", "json", "csv", "tex")
Steps = Mapping[str, Any]


def look_file(
    payload: Payload, form: str, *, selected: Selected | None = None, steps: Iterable[Steps] = ()
) -> str:
    """The text of a file. HTML and JSON hold everything; the others the matrix that is selected.

    ``steps`` are shown by the HTML where their token is clicked; the other forms have no use for
    them: ``steps_file`` is theirs.
    """
    chosen = selected or Selected()
    if form == "html":
        return look_html(payload, steps, selected=chosen)
    if form == "json":
        return json.dumps(payload, ensure_ascii=False) + "\n"
    if form == "svg":
        one = drawn(payload, chosen)
        return matrix(one.weights.tolist(), one.rows, one.columns, title=one.title) + "\n"
    if form == "csv":
        return csv_table(_table(payload, chosen, repr))
    if form == "tex":
        return latex_table(_table(payload, chosen, number))
    raise ConfigError(
        f"a look is saved as {', '.join('.' + one for one in FORMS)}, not as .{form}"
        f"{did_you_mean(form, FORMS)}"
    )


def steps_file(payload: Payload, steps: Steps, form: str) -> str:
    """The steps of one token in a form other than HTML; JSON is the payload with them inside."""
    if form == "json":
        return json.dumps({**payload, "steps": steps}, ensure_ascii=False) + "\n"
    return {"svg": steps_svg, "csv": steps_csv, "tex": steps_latex}[form](steps).rstrip("\n") + "\n"


def _table(payload: Payload, selected: Selected, written: Callable[[float], str]) -> Table:
    """A row a position that asks, a column one that is looked at."""
    one = drawn(payload, selected)
    rows = [
        [label, *map(written, weights)]
        for label, weights in zip(one.rows, one.weights.tolist(), strict=True)
    ]
    return Table(one.title, ["", *one.columns], rows)
