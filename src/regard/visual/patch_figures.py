"""Figure 7 of the Vision Transformer's paper: how far heads look, and which positions are alike.

Dosovitskiy et al. 2021. Low layers have heads that look at what is near beside heads that look
everywhere; positions that were learned know the rows and columns of the picture.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.visual.heads import head_map
from regard.visual.heat_maps import data_uri
from regard.visual.svg import Markup, element, picture
from regard.visual.theme import INK, PALETTE, number, weight_rgb

WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 420, 240, 46, 40, 40
TILES, GAP = 384, 1
"""Pixels of all tiles together; cells between two of them."""


def head_figures(heads: Mapping[str, Any]) -> list[str]:
    """The map of the heads, and what else is drawn of those that look at patches."""
    found: list[str] = [head_map(heads)]
    far = [row for row in heads["rows"] if row.get("pixel_distance") is not None]
    for name in dict.fromkeys(row["name"] for row in far):
        mine = [row for row in far if row["name"] == name]
        found.append(
            attention_distances([(row["layer"], row["pixel_distance"]) for row in mine], name=name)
        )
    if "position_similarities" in heads:
        found.append(position_tiles(heads["position_similarities"]))
    return found


def attention_distances(heads: Sequence[tuple[int, float]], *, name: str) -> str:
    """A point a head: its layer, and its mean distance in pixels; a line through the means."""
    layers = sorted({layer for layer, _ in heads})
    top = max(far for _, far in heads) or 1.0
    step = _round_step(top)
    highest = step * np.ceil(top / step)

    def place(layer: float, far: float) -> tuple[float, float]:
        across = (layer - layers[0] + 0.5) / (layers[-1] - layers[0] + 1)
        x = LEFT + (WIDTH - LEFT - 12) * across
        return x, TOP + (HEIGHT - TOP - BOTTOM) * (1 - far / highest)

    parts = [*_axes(layers, step, float(highest), place)]
    means = [(one, float(np.mean([far for at, far in heads if at == one]))) for one in layers]
    points = " ".join("{:.1f},{:.1f}".format(*place(*one)) for one in means)
    parts.append(element("polyline", points=points, fill="none", stroke=PALETTE[1]))
    for layer, far in heads:
        x, y = place(layer, far)
        told = element("title", f"layer {layer}: {number(far)} pixels")
        parts.append(element("circle", told, cx=x, cy=y, r=4, fill=INK, fill_opacity=0.75))
    title = f"Mean attention distance, {name}"
    return picture(
        element("text", title, x=0, y=17, font_size=15, font_weight=600),
        *parts,
        size=(WIDTH, HEIGHT),
        label=f"{title}: pixels by layer, a point a head and a line through their means",
        font_size=12,
    )


def _axes(layers: Sequence[int], step: float, highest: float, place: Any) -> list[Markup]:
    parts = []
    for k in range(round(highest / step) + 1):
        y = place(0, k * step)[1]
        ends = {"x1": LEFT, "x2": WIDTH - 12, "y1": y, "y2": y}
        parts.append(element("line", **ends, stroke="currentColor", stroke_opacity=0.15))
        label = f"{k * step:g}"
        parts.append(element("text", label, x=LEFT - 8, y=y + 4, text_anchor="end"))
    below = HEIGHT - BOTTOM + 16
    for layer in layers:
        x = place(layer, 0)[0]
        parts.append(element("text", str(layer), x=x, y=below, text_anchor="middle"))
    middle = (LEFT + WIDTH - 12) / 2
    parts.append(element("text", "layer", x=middle, y=below + 17, text_anchor="middle"))
    parts.append(element("text", "pixels", x=LEFT, y=TOP - 8, fill_opacity=0.75))
    return parts


def _round_step(top: float) -> float:
    """1, 2 or 5 times a power of ten, so that there are some four steps."""
    size = 10.0 ** np.floor(np.log10(top / 4))
    return float(next(k * size for k in (1, 2, 5, 10) if k * size >= top / 4))


def position_tiles(cosines: Any) -> str:
    """Cosines (R, C, R, C): a tile a patch, with its similarity to all patches as colours."""
    found = np.asarray(cosines, np.float64)
    rows, columns = found.shape[:2]
    uri = data_uri(_tiled((found + 1) / 2))
    wide = TILES / columns
    tall = wide * rows
    image = element(
        "image",
        href=uri,
        x=LEFT,
        y=TOP,
        width=TILES,
        height=tall,
        preserveAspectRatio="none",
        style="image-rendering: pixelated",
    )
    names = [
        element("text", str(k), x=LEFT + wide * (k + 0.5), y=TOP + tall + 16, text_anchor="middle")
        for k in range(columns)
    ]
    names += [
        element("text", str(k), x=LEFT - 8, y=TOP + wide * (k + 0.5) + 4, text_anchor="end")
        for k in range(rows)
    ]
    title = "Similarity of learned positions"
    key = "cosine with every patch: dark −1, bright 1; a tile a patch, by row and column"
    return picture(
        element("text", title, x=0, y=17, font_size=15, font_weight=600),
        image,
        *names,
        element("text", key, x=0, y=TOP + tall + 36, fill_opacity=0.75),
        size=(max(LEFT + TILES + 12, 6.2 * len(key)), TOP + tall + 44),
        label=f"{title}: {key}",
        font_size=12,
    )


def _tiled(shares: NDArray[Any]) -> NDArray[np.uint8]:
    """Shares (R, C, R, C) from 0 to 1 -> tiles side by side with a gap that is clear, in RGBA."""
    rows, columns = shares.shape[:2]
    scale = np.array([weight_rgb(k / 255) for k in range(256)], np.uint8)
    colours = scale[np.round(shares.clip(0, 1) * 255).astype(int)]  # (R, C, R, C, 3)
    tiles = np.zeros((rows, columns, rows + GAP, columns + GAP, 4), np.uint8)
    tiles[:, :, :rows, :columns, :3] = colours
    tiles[:, :, :rows, :columns, 3] = 255
    height, width = rows * (rows + GAP), columns * (columns + GAP)
    return tiles.transpose(0, 2, 1, 3, 4).reshape(height, width, 4)
