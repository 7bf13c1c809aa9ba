"""A look as one HTML file that works offline, and as a piece of a notebook.

The file holds the drawing module, a small interface and the numbers; the browser itself refuses
anything from outside. A notebook gets the same file in an ``<iframe srcdoc>``: scripts run there
however the notebook inserts its outputs, and no view can disturb another or the notebook.
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

from regard.visual.outcome import came_out
from regard.visual.packing import packed_payload, packed_steps
from regard.visual.payload import Payload, Selected
from regard.visual.style import STYLE
from regard.visual.svg import element

_START = """
const data = JSON.parse(document.querySelector("script[type='application/json']").textContent);
show(document.querySelector("main > div"), data);
"""
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
    those of the selected layer are, and the others have 8 bits, which the page tells (``packing``).
    """
    data = packed_payload(payload, selected or Selected())
    if steps is not None:
        data["steps"] = packed_steps([steps] if isinstance(steps, Mapping) else steps)
    if tree is not None:
        data["tree"] = tree
    script = module_text() + _START
    title = f"Attention: {payload.get('source') or came_out(payload)}"
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{_policy(script)}">
<link rel="icon" href="data:,">
{element("title", title)}
<style>{STYLE}
main {{ padding-block: 1.5rem; }}</style>
</head>
<body>
<main><div></div></main>
<script type="application/json">{json_text(data)}</script>
<script type="module">{script}</script>
</body>
</html>
"""


def look_fragment(payload: Payload, steps: Steps | None = None, tree: Payload | None = None) -> str:
    """The same for the output of a notebook; as many on one page as one likes."""
    return element(
        "iframe",
        srcdoc=look_html(payload, steps, tree),
        sandbox="allow-scripts allow-downloads",
        style=_FRAME,
        title="attention",
    )


def json_text(data: Any) -> str:
    """JSON that cannot end the script element it stands in, whatever a sentence says."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


@cache
def module_text() -> str:
    """The drawing module and the interface on top of it, as one module."""
    folder = files("regard.visual") / "static"
    draw, single = (
        (folder / name).read_text(encoding="utf-8") for name in ("draw.js", "single.js")
    )
    return draw + re.sub(r'^import [^;]* from "\./draw\.js";$', "", single, flags=re.MULTILINE)


def _policy(script: str) -> str:
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    return (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
