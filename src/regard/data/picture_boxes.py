"""Boxes of files: read, checked, and brought into pictures that were made square.

A line of a table is one box: ``image``, ``label``, ``xmin``, ``ymin``, ``xmax`` and ``ymax`` in
pixels; perhaps ``width`` and ``height`` of the picture, and its ``split``. A line of JSON is a
picture with its ``boxes``, each left, top, right, bottom, and their ``labels``; so is an image of
COCO.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from regard.core.errors import DataError
from regard.data.lines import excerpt
from regard.data.picture_corpora import picture_fields
from regard.data.picture_files import Album
from regard.data.picture_records import BoxedPicture, Boxes
from regard.data.records import Fit

CORNERS = ("xmin", "ymin", "xmax", "ymax")
BOX_COLUMNS = ("image", "label", *CORNERS)
"""Of a line that is one box; ``label`` and the corners are left empty where nothing is there."""
SLACK = 1.0
"""Pixels by which a box may reach over the edge, as rounding brings it about; that is cut off."""
LEAST_SEEN = 0.3
"""Share of a box that must be in a picture that was cut out of another, or it is left out."""


def boxed_picture(where: str, values: Mapping[str, Any], album: Album) -> BoxedPicture:
    """One box, or all boxes of a picture; boxes that cannot be are refused."""
    fields = picture_fields(where, values, album)
    boxes, labels = _given(where, values)
    width, height = album.size(fields["picture"])
    _check_size(where, values, width, height)
    corners = [_checked(where, box, width, height) for box in boxes]
    found = np.array(corners, np.float32).reshape(-1, 4)
    return BoxedPicture(**fields, boxes=found, labels=labels, aspect=width / height)


def _given(where: str, values: Mapping[str, Any]) -> tuple[Sequence[Any], tuple[str, ...]]:
    """Boxes and their labels."""
    if "boxes" not in values:
        missing = [name for name in BOX_COLUMNS if name not in values]
        if missing:
            raise DataError(
                f"{where}: no {missing[0]!r}; expected {', '.join(BOX_COLUMNS)} of one box, or "
                "'boxes' and 'labels' of a picture"
            )
        box, label = [values[name] for name in CORNERS], str(values["label"]).strip()
        if not label and not any(str(side).strip() for side in box):
            return [], ()  # a picture with nothing in it
        boxes: Any = [box]
        labels: Any = [label]
    else:
        boxes, labels = values["boxes"], values.get("labels")
        if not isinstance(boxes, list) or not isinstance(labels, list):
            raise DataError(f"{where}: expected lists of 'boxes' and of their 'labels'")
    if len(boxes) != len(labels):
        raise DataError(f"{where}: {len(boxes)} boxes, but {len(labels)} labels")
    names = tuple("" if label is None else str(label).strip() for label in labels)
    if not all(names):
        raise DataError(f"{where}: a box without a label")
    return boxes, names


def _check_size(where: str, values: Mapping[str, Any], width: int, height: int) -> None:
    """Refuse a size that is not the picture's: boxes would be those of another picture."""
    told = [values.get(name) for name in ("width", "height")]
    if any(side in (None, "") for side in told):
        return
    if [_number(side) for side in told] != [width, height]:
        raise DataError(
            f"{where}: a picture of {told[0]} × {told[1]} pixels is said to be there, but it has "
            f"{width} × {height}; bring its boxes to that size"
        )


def _checked(where: str, box: Any, width: float, height: float) -> list[float]:
    """Left, top, right, bottom as shares of the picture's sides."""
    sides = [_number(side) for side in box] if isinstance(box, Sequence) else []
    if len(sides) != 4 or isinstance(box, str) or not all(map(math.isfinite, sides)):
        raise DataError(
            f"{where}: expected a box as left, top, right, bottom in pixels, but found "
            f"{excerpt(str(box))}"
        )
    left, top, right, bottom = sides
    told = f"{where}: the box {left:g}, {top:g}, {right:g}, {bottom:g}"
    if not (left < right and top < bottom):
        raise DataError(f"{told} is empty: expected left < right and top < bottom")
    if min(left, top) < -SLACK or right > width + SLACK or bottom > height + SLACK:
        raise DataError(
            f"{told} lies outside the picture of {width:g} × {height:g} pixels; boxes are left, "
            "top, right, bottom in pixels of the picture"
        )
    inside = (max(0.0, left), max(0.0, top), min(right, width), min(bottom, height))
    if inside[0] >= inside[2] or inside[1] >= inside[3]:
        raise DataError(f"{told} lies outside the picture of {width:g} × {height:g} pixels")
    return [side / whole for side, whole in zip(inside, (width, height) * 2, strict=True)]


def _number(value: Any) -> float:
    """Not a number where it is none."""
    try:
        return math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        return math.nan


# ------------------------------------------------------------------ pictures that are made square


def _placement(aspect: float, fit: Fit) -> tuple[Boxes, Boxes]:
    """a and b, each (4,): what is at x in a picture is at a·x + b once it is square.

    ``aspect`` is width / height before. A side is cut or filled up at both ends alike.
    """
    if fit in ("squash", "keep"):  # all of the picture is there, whatever its sides
        return np.ones(4, np.float32), np.zeros(4, np.float32)
    sides = np.array([aspect, 1.0, aspect, 1.0], np.float32)
    square = sides.min() if fit == "crop" else sides.max()
    return sides / square, (square - sides) / (2 * square)


def fitted_boxes(boxes: Boxes, aspect: float, fit: Fit) -> Boxes:
    """Boxes (n, 4) where they lie once a picture is square, also beyond its edges."""
    a, b = _placement(aspect, fit)
    return boxes * a + b


def original_boxes(boxes: Boxes, aspect: float, fit: Fit) -> Boxes:
    """The way back, cut off at the edges of the picture."""
    a, b = _placement(aspect, fit)
    return ((boxes - b) / a).clip(0, 1)


def seen_boxes(boxes: Boxes) -> tuple[Boxes, Any]:
    """Boxes (n, 4) cut off at the picture's edges, and which of them are still seen (n,)."""
    inside = boxes.clip(0, 1)
    return inside, _area(inside) >= LEAST_SEEN * _area(boxes)


def _area(boxes: Boxes) -> Any:
    return (boxes[..., 2] - boxes[..., 0]) * (boxes[..., 3] - boxes[..., 1])
