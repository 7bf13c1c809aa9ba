"""Weights laid over a picture: one map, or a strip with a map a word, as SVG and in a terminal.

A map (R, C) has a weight a patch. It is drawn as light over a darkened picture, the largest weight
as the picture itself: upsampled smoothly, or as the patches that they are.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.cells import set_cell_size
from rich.text import Text

from regard.visual.svg import Markup, element, picture, printable
from regard.visual.theme import UNLIT, number

Pixels = NDArray[np.uint8]
"""(H, W, 3)"""
SIDE, GAP, LINE = 132, 14, 20
"""Of a picture in a strip; between two; of a line of text below."""
UPPER_HALF = "▀"


def data_uri(pixels: Pixels) -> str:
    """A picture (H, W, 3), or (H, W, 4) with opacity, as a PNG that stands in a page."""
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


def shade(weights: Any) -> Pixels:
    """Weights (R, C) -> (R, C, 4): black, the less weight the more opaque."""
    found = np.asarray(weights, np.float64)
    most = found.max(initial=0.0)
    light = found / most if most > 0 else found
    shades = np.zeros((*found.shape, 4), np.uint8)
    shades[..., 3] = np.round(255 * (1 - UNLIT) * (1 - light.clip(0, 1)))
    return shades


def lit(pixels: Pixels, weights: Any, *, smooth: bool = False) -> Pixels:
    """The picture as a map shows it, patch by patch or upsampled bilinearly: (H, W, 3)."""
    from PIL import Image

    height, width = pixels.shape[:2]
    veil = Image.fromarray(shade(weights)[..., 3])
    how = Image.Resampling.BILINEAR if smooth else Image.Resampling.NEAREST
    opaque = np.asarray(veil.resize((width, height), how)) / 255
    return np.round(pixels * (1 - opaque)[..., None]).astype(np.uint8)


def pixels_of(uri: str) -> Pixels:
    """What ``data_uri`` was given."""
    from PIL import Image

    data = base64.b64decode(uri.partition(",")[2])
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


def heat_map(
    uri: str, weights: Any, *, size: tuple[float, float], smooth: bool = True, what: str = ""
) -> Markup:
    """One picture under its weights, as a group of an SVG; point at a patch for its number."""
    width, height = size
    rendering = "auto" if smooth else "pixelated"
    return element(
        "g",
        _image(uri, size),
        _image(data_uri(shade(weights)), size, style=f"image-rendering: {rendering}"),
        *_patches(np.asarray(weights), width, height, what),
    )


def _image(uri: str, size: tuple[float, float], **more: str) -> Markup:
    width, height = size
    return element(
        "image", href=uri, width=width, height=height, preserveAspectRatio="none", **more
    )


def _patches(weights: NDArray[Any], width: float, height: float, what: str) -> list[Markup]:
    """Unseen, with a title each."""
    rows, columns = weights.shape
    return [
        element(
            "rect",
            element("title", f"{what} row {r}, column {c}: {number(weights[r, c])}".strip()),
            x=c * width / columns,
            y=r * height / rows,
            width=width / columns,
            height=height / rows,
            fill_opacity="0",
        )
        for r in range(rows)
        for c in range(columns)
    ]


def strip(
    pixels: Pixels,
    words: Sequence[str],
    maps: Sequence[Any],
    *,
    gates: Sequence[float] | None = None,
    smooth: bool = True,
    columns: int = 6,
    side: int = SIDE,
    under: Sequence[Pixels] = (),
    title: str,
) -> str:
    """A picture for each word with where it looked, the word below, row by row as one reads.

    The first picture is the one that was read. ``gates`` are the β of each word, told beside it;
    ``side`` is how wide a picture is; ``under`` are the first picture and one a word, where they
    are not all the same, as with boxes drawn into them.
    """
    tall = side * pixels.shape[0] / pixels.shape[1]
    size = (float(side), tall)
    first, *others = _uris(pixels, under, len(words))
    cells = [_image(first, size)]
    cells += [
        heat_map(uri, one, size=size, smooth=smooth, what=f"{word}:")
        for word, one, uri in zip(words, maps, others, strict=True)
    ]
    labels = ["", *words]
    notes = ["", *([""] * len(words) if gates is None else [f"β {number(g)}" for g in gates])]
    high = tall + (1 if gates is None else 2) * LINE + GAP
    parts = []
    for i, (cell, label, note) in enumerate(zip(cells, labels, notes, strict=True)):
        x, y = (i % columns) * (side + GAP), LINE + GAP + (i // columns) * high
        texts = [
            element("text", text, x=side / 2, y=tall + (n + 0.8) * LINE, text_anchor="middle")
            for n, text in enumerate((label, note))
            if text
        ]
        parts.append(element("g", cell, *texts, transform=f"translate({x:.1f} {y:.1f})"))
    n_rows = -(-len(cells) // columns)
    width = min(len(cells), columns) * (side + GAP) - GAP
    return picture(
        element("text", title, x=0, y=16, font_weight=600),
        *parts,
        size=(max(width, 8 * len(title)), LINE + GAP + n_rows * high),
        label=title,
    )


def _uris(pixels: Pixels, under: Sequence[Pixels], n: int) -> list[str]:
    return [data_uri(one) for one in under] if len(under) else [data_uri(pixels)] * (1 + n)


def half_blocks(pixels: Pixels, *, width: int = 32) -> Text:
    """A picture in a terminal: a letter shows two pixels, one above the other."""
    from PIL import Image

    height = max(2, 2 * round(width * pixels.shape[0] / pixels.shape[1] / 2))
    small = np.asarray(
        Image.fromarray(pixels).resize((width, height), Image.Resampling.BOX)
    ).tolist()
    text = Text()
    for upper, lower in zip(small[::2], small[1::2], strict=True):
        for a, b in zip(upper, lower, strict=True):
            text.append(UPPER_HALF, f"rgb({a[0]},{a[1]},{a[2]}) on rgb({b[0]},{b[1]},{b[2]})")
        text.append("\n")
    return text


def strip_text(
    pixels: Pixels,
    words: Sequence[str],
    maps: Sequence[Any],
    *,
    width: int = 80,
    side: int = 16,
    smooth: bool = False,
    under: Sequence[Pixels] = (),
) -> Text:
    """The strip in a terminal: pictures side by side, each under its word."""
    n = max(1, (width + 1) // (side + 1))
    pictures = under or [pixels] * len(words)
    text = Text()
    for begin in range(0, len(words), n):
        some = [
            half_blocks(lit(one, weights, smooth=smooth), width=side)
            for one, weights in zip(
                pictures[begin : begin + n], maps[begin : begin + n], strict=True
            )
        ]
        names = [set_cell_size(printable(word), side) for word in words[begin : begin + n]]
        text.append(" ".join(names) + "\n", "bold")
        for lines in zip(*(one.split("\n", allow_blank=False) for one in some), strict=True):
            text.append(Text(" ").join(lines))
            text.append("\n")
    return text


def strip_png(
    pixels: Pixels,
    words: Sequence[str],
    maps: Sequence[Any],
    *,
    gates: Sequence[float] | None = None,
    smooth: bool = True,
    columns: int = 6,
    side: int = SIDE,
    under: Sequence[Pixels] = (),
) -> bytes:
    """The strip as a PNG, twice as large as the SVG: the picture, then one a word."""
    from PIL import Image, ImageDraw, ImageFont

    side, gap, line = 2 * side, 2 * GAP, 2 * LINE
    tall = round(side * pixels.shape[0] / pixels.shape[1])
    first, *others = (
        np.asarray(Image.fromarray(one).resize((side, tall), Image.Resampling.BILINEAR))
        for one in under or [pixels] * (1 + len(words))
    )
    lights = zip(others, maps, strict=True)
    cells = [first, *(lit(large, one, smooth=smooth) for large, one in lights)]
    notes = ["", *([""] * len(words) if gates is None else [f"gate {number(g)}" for g in gates])]
    high = tall + (1 if gates is None else 2) * line + gap
    n_rows, n_columns = -(-len(cells) // columns), min(len(cells), columns)
    whole = Image.new("RGB", (n_columns * (side + gap) - gap, n_rows * high), "white")
    pen, font = ImageDraw.Draw(whole), ImageFont.load_default(0.6 * line)
    for i, (cell, *texts) in enumerate(zip(cells, ["", *words], notes, strict=True)):
        x, y = (i % columns) * (side + gap), (i // columns) * high
        whole.paste(Image.fromarray(cell), (x, y))
        for n, text in enumerate(map(printable, texts)):
            pen.text((x + side / 2, y + tall + n * line), text, "black", font, anchor="ma")
    file = io.BytesIO()
    whole.save(file, "PNG", optimize=True)
    return file.getvalue()
