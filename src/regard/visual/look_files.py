"""A look in the form of any file we write: HTML, SVG, PNG, PDF, JSON, CSV or LaTeX; for notebooks.

The HTML file works offline. It holds the drawing module, a small interface and the numbers; the
browser itself refuses anything from outside. A notebook gets the same file in an ``<iframe
srcdoc>``: scripts run there however the notebook inserts its outputs, and no view can disturb
another or the notebook.

``LookWidget(payload)`` is live in Jupyter, by anywidget: setting ``widget.payload`` to another one
draws it anew, and what is chosen in it comes back as ``widget.selected``.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import Any

from regard.core.errors import ConfigError
from regard.core.registry import did_you_mean
from regard.visual.figures import figure
from regard.visual.matrix import matrix
from regard.visual.payload import (
    Payload,
    Selected,
    answer_of,
    drawn,
    packed_payload,
    packed_steps,
    selected_view,
)
from regard.visual.picture_maps import picture_maps, shows_picture
from regard.visual.report import page
from regard.visual.steps_table import steps_csv, steps_latex, steps_svg
from regard.visual.svg import alone, element, stack
from regard.visual.tables import Table, csv_table
from regard.visual.theme import theme_js
from regard.visual.tikz import matrix_tikz

FORMS = ("html", "svg", "png", "pdf", "json", "csv", "tex")
_OWN_IMPORTS = r'^import [^;]* from "\./\w+\.js";$'
_FRAME = "width:100%;height:44rem;border:0;resize:vertical;overflow:auto"

Steps = Mapping[str, Any]  # of one token


def look_file(
    payload: Payload, form: str, *, selected: Selected | None = None, steps: Iterable[Steps] = ()
) -> str:
    """The text of a file: HTML (with ``steps``) and JSON hold all, others the selected matrix."""
    chosen = selected or Selected()
    if form == "html":
        return look_html(payload, steps, selected=chosen)
    if form == "json":
        return json.dumps(payload, ensure_ascii=False) + "\n"
    if form == "svg":
        return alone(look_svg(payload, chosen), fixed=True) + "\n"
    if form == "csv":
        return csv_table(_table(payload, chosen))
    if form == "tex":
        one = drawn(payload, chosen)
        return matrix_tikz(one.weights.tolist(), one.rows, one.columns, title=one.title)
    raise ConfigError(
        f"a look is saved as {', '.join('.' + one for one in FORMS)}, not as .{form}"
        f"{did_you_mean(form, FORMS)}"
    )


def look_svg(payload: Payload, selected: Selected) -> str:
    """The selected attention as a picture in the ink of the page around it."""
    if selected.every_head:
        n = len(selected_view(payload, selected).weights)
        heads = [replace(selected, head=head, every_head=False) for head in range(n)]
        each = [look_svg(payload, one) for one in heads]
        return stack(each, label="All heads", columns=math.ceil(math.sqrt(n)))
    if shows_picture(payload, selected):
        return picture_maps(payload, selected).svg()
    one = drawn(payload, selected)
    return matrix(one.weights.tolist(), one.rows, one.columns, title=one.title, axes=one.axes)


def look_figure(payload: Payload, form: str, selected: Selected) -> bytes:
    """A PNG or PDF of what the SVG shows: the matrix, or a picture with where it was looked at."""
    if form == "png" and not selected.every_head and shows_picture(payload, selected):
        return picture_maps(payload, selected).png()
    return figure(look_file(payload, "svg", selected=selected), form)


def steps_file(payload: Payload, steps: Steps, form: str) -> str:
    """The steps of one token in a form other than HTML; JSON is the payload with them inside."""
    if form == "json":
        return json.dumps({**payload, "steps": steps}, ensure_ascii=False) + "\n"
    if form == "svg":
        return alone(steps_svg(steps).rstrip("\n"), fixed=True) + "\n"
    return {"csv": steps_csv, "tex": steps_latex}[form](steps).rstrip("\n") + "\n"


def _table(payload: Payload, selected: Selected) -> Table:
    """A row a query, a column a key, all digits; the corner says which head of which layer."""
    one = drawn(payload, selected)
    rows = [
        [label, *map(repr, weights)]
        for label, weights in zip(one.rows, one.weights.tolist(), strict=True)
    ]
    return Table(one.title, [one.title, *one.columns], rows)


# ------------------------------------------------------------------ HTML and notebooks


def look_html(
    payload: Payload,
    steps: Steps | Iterable[Steps] | None = None,
    tree: Payload | None = None,
    *,
    selected: Selected | None = None,
) -> str:
    """A page by itself: choose attention, layer, head and view; save it as SVG or PNG.

    ``steps`` are shown when their token is clicked. Every weight is exact where there are few; else
    those of the selected layer are, and the others have 8 bits, which the page tells (``payload``).
    """
    data = packed_payload(payload, selected or Selected())
    if steps is not None:
        data["steps"] = packed_steps([steps] if isinstance(steps, Mapping) else steps)
    if tree is not None:
        data["tree"] = tree
    script = module_text("start.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    policy = (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    title = f"Attention: {payload.get('source') or answer_of(payload)}"
    body = f"""<main><div></div></main>
<script type="application/json">{json_text(data)}</script>
<script type="module">{script}</script>"""
    style = "\nmain { padding-block: 1.5rem; }"
    return page(title, body, kind="Where a model looks", policy=policy, style=style)


def look_fragment(
    payload: Payload, steps: Steps | Iterable[Steps] | None = None, tree: Payload | None = None
) -> str:
    """The same for the output of a notebook; as many on one page as one likes."""
    inside, may = look_html(payload, steps, tree), "allow-scripts allow-downloads"
    return element("iframe", srcdoc=inside, sandbox=may, style=_FRAME, title="attention")


def LookWidget(  # noqa: N802 - to the user it is a class; it is made on first use
    payload: Payload, steps: Iterable[Mapping[str, Any]] = ()
) -> Any:
    """An anywidget of a look's payload (``look.as_json()``), with the steps of some tokens."""
    packed = packed_payload(payload, Selected())
    return _widget_class()(payload={**packed, "steps": packed_steps(steps)})


def json_text(data: Any) -> str:
    """JSON that cannot end the script element it stands in, whatever a sentence says."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


@cache
def module_text(*more: str) -> str:
    """The theme, the drawing module, its interface and ``more`` files, as one module."""
    folder = files("regard.visual") / "static"
    names = ("hover.js", "many_lines.js", "draw.js", "patches.js", "single.js", *more)
    parts = ((folder / name).read_text(encoding="utf-8") for name in names)
    return theme_js() + re.sub(_OWN_IMPORTS, "", "".join(parts), flags=re.MULTILINE)


@cache
def _widget_class() -> Any:
    """Made when first needed: anywidget is an extra that most do without."""
    try:
        import anywidget
        import traitlets
    except ImportError as error:
        raise ConfigError(
            "the live widget needs anywidget, which is not installed; "
            "pip install 'regard[notebook]', or show the look itself, which needs nothing"
        ) from error

    class _LookWidget(anywidget.AnyWidget):  # type: ignore[misc, unused-ignore]
        _esm = module_text("widget.js")
        payload = traitlets.Dict().tag(sync=True)
        selected = traitlets.Dict().tag(sync=True)

    return _LookWidget
