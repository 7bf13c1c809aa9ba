"""A look as one HTML file that works offline, and as a piece of a notebook.

The file holds the drawing module, a small interface and the numbers; the browser itself refuses
anything from outside. A notebook gets the same file in an ``<iframe srcdoc>``: scripts run there
however the notebook inserts its outputs, and no view can disturb another or the notebook.

``LookWidget(payload)`` is live in Jupyter, by anywidget: setting ``widget.payload`` to another one
draws it anew, and what is chosen in it comes back as ``widget.selected``.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from regard.core.errors import ConfigError
from regard.visual.payload import Payload, Selected, answer_of, packed_payload, packed_steps
from regard.visual.report import page
from regard.visual.svg import element
from regard.visual.theme import theme_js

_OWN_IMPORTS = r'^import [^;]* from "\./(theme|draw)\.js";$'
_FRAME = "width:100%;height:44rem;border:0;resize:vertical;overflow:auto"

Steps = Mapping[str, Any] | Iterable[Mapping[str, Any]]
"""The steps of one token, or of several."""


def look_html(
    payload: Payload,
    steps: Steps | None = None,
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
    title = f"Attention: {payload.get('source') or answer_of(payload)}"
    body = f"""<main><div></div></main>
<script type="application/json">{json_text(data)}</script>
<script type="module">{script}</script>"""
    return page(title, body, policy=_policy(script), style="\nmain { padding-block: 1.5rem; }")


def look_fragment(payload: Payload, steps: Steps | None = None, tree: Payload | None = None) -> str:
    """The same for the output of a notebook; as many on one page as one likes."""
    return element(
        "iframe",
        srcdoc=look_html(payload, steps, tree),
        sandbox="allow-scripts allow-downloads",
        style=_FRAME,
        title="attention",
    )


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
    names = ("draw.js", "single.js", *more)
    parts = ((folder / name).read_text(encoding="utf-8") for name in names)
    return theme_js() + re.sub(_OWN_IMPORTS, "", "".join(parts), flags=re.MULTILINE)


def _policy(script: str) -> str:
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    return (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


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
