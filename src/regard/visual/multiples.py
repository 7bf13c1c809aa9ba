"""All layers and heads of an attention as small pictures in one SVG, a pixel a weight."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Iterator

import numpy as np

from regard.visual.payload import Array, Payload, View, view
from regard.visual.svg import Markup, element, picture

_INK = (0, 114, 178)  # of Okabe & Ito; strength is told by opacity, which works on light and dark
_SIZE, _GAP, _LEFT, _TOP = 96, 8, 60, 56


def multiples(payload: Payload, name: str) -> str:
    """A row a layer, a column a head. The root of the weight shows, so that weak ones are seen."""
    views = [view(payload, name, i) for i in range(len(payload["attentions"].get(name, ())))]
    views = views or [view(payload, name)]
    n = max(len(one.weights) for one in views)
    tall = _SIZE * min(2.0, max(0.5, len(views[0].rows) / max(1, len(views[0].columns))))
    title = f"{name}: every layer and head"
    width = max(_LEFT + n * (_SIZE + _GAP), 8 * len(title))
    heads = [
        element("text", f"head {h}", x=_LEFT + h * (_SIZE + _GAP) + _SIZE / 2, y=_TOP - 8,
                text_anchor="middle")
        for h in range(n)
    ]  # fmt: skip
    return picture(
        element("text", title, x=4, y=16, font_weight=600),
        *heads,
        *(part for one in views for part in _row(one, tall)),
        box=f"0 0 {width:.0f} {_TOP + len(views) * (tall + _GAP):.0f}",
        width=f"{width:.0f}",
        label=title,
    )


def _row(one: View, tall: float) -> Iterator[Markup]:
    y = _TOP + one.layer * (tall + _GAP)
    yield element("text", f"layer {one.layer}", x=_LEFT - 8, y=y + tall / 2 + 4, text_anchor="end")
    for head, weights in enumerate(one.weights):
        place = {"x": _LEFT + head * (_SIZE + _GAP), "y": y, "width": _SIZE, "height": tall}
        yield element(
            "g",
            element("title", one.title(head)),
            element(
                "image",
                href=_image(weights),
                preserveAspectRatio="none",
                style="image-rendering:pixelated",
                **place,
            ),
            element("rect", fill="none", stroke="currentColor", stroke_opacity=0.3, **place),
        )


def _image(weights: Array) -> str:
    """Weights (T, S) as a PNG in a data URL: ink everywhere, and the opacity tells."""
    n_rows, n_columns = weights.shape
    pixels = np.empty((n_rows, n_columns, 4), dtype=np.uint8)
    pixels[..., :3] = _INK
    pixels[..., 3] = np.round(255 * np.sqrt(np.clip(weights, 0, 1)))
    # A PNG's rows each begin with the number of their filter; 0 is none.
    raw = b"".join(b"\0" + row.tobytes() for row in pixels)
    head = struct.pack(">IIBBBBB", n_columns, n_rows, 8, 6, 0, 0, 0)
    chunks = _chunk(b"IHDR", head) + _chunk(b"IDAT", zlib.compress(raw)) + _chunk(b"IEND", b"")
    data = base64.b64encode(b"\x89PNG\r\n\x1a\n" + chunks).decode("ascii")
    return f"data:image/png;base64,{data}"


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
