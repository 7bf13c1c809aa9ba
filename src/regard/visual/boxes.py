"""Boxes drawn over a picture, each with its label: as pixels, as SVG, or as a file of either."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.core.errors import ConfigError
from regard.core.files import write_whole
from regard.visual.figures import figure
from regard.visual.heat_maps import data_uri
from regard.visual.svg import Markup, element, picture
from regard.visual.theme import PALETTE

Pixels = NDArray[np.uint8]
"""(H, W, 3)"""
FILES = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG", ".webp": "WEBP"}
FILES |= {".svg": "SVG", ".pdf": "PDF"}
"""What a picture with boxes can be written as, by the ending of its name."""
LEAST = 320
"""Pixels of a side that a picture is enlarged to: labels need room."""
LETTER = 13
"""Pixels of a label's line."""


class LabelledBox(NamedTuple):
    """A box, what is in it, and how sure that is."""

    corners: tuple[float, float, float, float]
    """Left, top, right, bottom, as shares of the picture's sides."""
    label: str
    score: float | None = None

    @property
    def text(self) -> str:
        """The label and, where it is known, the score."""
        return self.label if self.score is None else f"{self.label} {self.score:.2f}"


def with_boxes(pixels: Pixels, boxes: Sequence[LabelledBox]) -> Pixels:
    """The picture with boxes drawn into it, enlarged where it is small: (H, W, 3)."""
    from PIL import Image, ImageDraw, ImageFont

    height, width = _size(pixels)
    found = Image.fromarray(pixels).resize((width, height), Image.Resampling.NEAREST)
    pen, font = ImageDraw.Draw(found), ImageFont.load_default(LETTER)
    colours = _colours(boxes)
    for one in boxes:
        left, top, right, bottom = _scaled(one, width, height)
        pen.rectangle((left, top, right, bottom), outline=colours[one.label], width=2)
        place = (left + 3, max(0.0, top - LETTER - 2))
        pen.rectangle(pen.textbbox(place, one.text, font=font), fill=colours[one.label])
        pen.text(place, one.text, fill="white", font=font)
    return np.asarray(found)


def boxes_svg(pixels: Pixels, boxes: Sequence[LabelledBox], *, title: str) -> str:
    """The same as an SVG with the picture in it; point at a box for what is in it."""
    height, width = _size(pixels)
    colours = _colours(boxes)
    image = element(
        "image",
        href=data_uri(pixels),
        width=width,
        height=height,
        preserveAspectRatio="none",
        style="image-rendering: pixelated",
    )
    drawn = [_drawn(one, colours[one.label], width, height) for one in boxes]
    return picture(image, *drawn, size=(width, height), label=title)


def write_boxes(path: Path, pixels: Pixels, boxes: Sequence[LabelledBox]) -> None:
    """Write the picture with its boxes, as the ending of the file's name says."""
    kind = FILES.get(path.suffix.lower())
    if kind is None:
        raise ConfigError(f"{path}: pictures are written as {', '.join(FILES)}; choose one of them")
    if kind in ("SVG", "PDF"):
        write_whole(path, figure(boxes_svg(pixels, boxes, title=path.stem), kind.lower()))
        return
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(with_boxes(pixels, boxes)).save(file, kind)
    write_whole(path, file.getvalue())


def _drawn(one: LabelledBox, colour: str, width: int, height: int) -> Markup:
    left, top, right, bottom = _scaled(one, width, height)
    return element(
        "g",
        element("title", one.text),
        element(
            "rect",
            x=left,
            y=top,
            width=right - left,
            height=bottom - top,
            fill=colour,
            fill_opacity="0.08",
            stroke=colour,
            stroke_width=2,
        ),
        element("text", one.text, x=left + 3, y=max(LETTER, top - 4), fill=colour, font_weight=600),
    )


def _scaled(one: LabelledBox, width: int, height: int) -> tuple[float, float, float, float]:
    left, top, right, bottom = one.corners
    return left * width, top * height, max(left, right) * width, max(top, bottom) * height


def _size(pixels: Pixels) -> tuple[int, int]:
    """Height and width as they are drawn: whole times those of the picture."""
    height, width = pixels.shape[:2]
    times = max(1, -(-LEAST // max(height, width)))
    return height * times, width * times


def _colours(boxes: Sequence[LabelledBox]) -> dict[str, str]:
    labels = sorted({one.label for one in boxes})
    return {label: PALETTE[i % len(PALETTE)] for i, label in enumerate(labels)}
