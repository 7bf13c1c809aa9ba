"""Which maps of a picture a look shows: one a word, or that of a class token, or a mean.

A map is what one row of an attention looks at, without what stands before the patches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.text import Text

from regard.visual.boxes import LabelledBox, with_boxes
from regard.visual.heat_maps import Pixels, pixels_of, strip, strip_png, strip_text
from regard.visual.payload import Array, Payload, Selected, View, selected_view
from regard.visual.theme import number

ALONE, SMALL = 32, 16
"""Letters that a picture is wide in a terminal: one map, or one of several."""
LARGE = 320
"""Pixels of the same in a file where there is one map."""
ALL = "mean of rows"


@dataclass(frozen=True, slots=True)
class PatchMap:
    """Where one row looks in the picture."""

    label: str
    weights: Array
    """(R, C)"""
    row: int | None = None
    """Of the attention; None is the mean of all rows."""
    gate: float | None = None

    @property
    def told(self) -> str:
        """The row, its gate, and how much of its weight is on the picture where that is not all."""
        inside = float(self.weights.sum())
        parts = [] if self.gate is None else [f"β {number(self.gate)}"]
        parts += [f"{number(inside)} on the patches"] if inside < 0.9995 else []
        return f"{self.label} ({', '.join(parts)})" if parts else self.label


@dataclass(frozen=True, slots=True)
class PictureMaps:
    """A picture, and the maps that are drawn over it."""

    pixels: Pixels
    maps: tuple[PatchMap, ...]
    title: str
    smooth: bool
    under: tuple[Pixels, ...] = ()
    """The picture with all boxes, then for each map with its own; empty where nothing was found."""

    def text(self, width: int) -> Text:
        """In a terminal: the picture, then a map a row."""
        side = min(SMALL if len(self.maps) > 1 else ALONE, width)
        even = np.ones((1, 1))
        names, maps = ["the picture", *self._told], [even, *(one.weights for one in self.maps)]
        how: dict[str, Any] = {"smooth": self.smooth, "under": self.under}
        return strip_text(self.pixels, names, maps, width=width, side=side, **how)

    def svg(self) -> str:
        """The same as a drawing; point at a patch for its weight."""
        return strip(self.pixels, *self._strip(), **self._how(), title=self.title)

    def png(self) -> bytes:
        """The same in pixels."""
        return strip_png(self.pixels, *self._strip(), **self._how())

    @property
    def _told(self) -> list[str]:
        return [one.told for one in self.maps]

    @property
    def _gates(self) -> list[float] | None:
        gates = [one.gate for one in self.maps if one.gate is not None]
        return gates if len(gates) == len(self.maps) else None

    def _strip(self) -> tuple[list[str], list[Array]]:
        words = [one.label for one in self.maps] if self._gates else self._told
        return words, [one.weights for one in self.maps]

    def _how(self) -> dict[str, Any]:
        large = {"side": LARGE, "columns": 2} if len(self.maps) == 1 else {}
        return {"gates": self._gates, "smooth": self.smooth, "under": self.under, **large}


def shows_picture(payload: Payload, selected: Selected) -> bool:
    """Whether what is selected looks at the patches of a picture that is there."""
    if not payload.get("picture") or not payload["attentions"]:
        return False
    return selected_view(payload, selected).columns.grid is not None


def picture_maps(payload: Payload, selected: Selected) -> PictureMaps:
    """The row that is selected; else one a word or object, or a class token's, or their mean."""
    view = selected_view(payload, selected)
    weights = view.head(selected.head)
    gates = payload.get("gates") if _is_target(payload, view) else None
    found = []
    for row in _rows(payload, view, selected):
        seen = weights.mean(axis=0) if row is None else weights[row]
        patches = seen[view.columns.n_before :].reshape(view.columns.grid or (1, -1))
        label = ALL if row is None else view.rows[row]
        gate = None if gates is None or row is None else float(gates[row])
        found.append(PatchMap(label, patches, row, gate))
    smooth = not selected.patches and not payload.get("drawn")  # hard attention takes one patch
    title, pixels = view.title(selected.head), pixels_of(payload["picture"])
    under = _with_boxes(pixels, payload.get("boxes") or (), found, view.rows.grid is None)
    return PictureMaps(pixels, tuple(found), title, smooth, under)


def _with_boxes(
    pixels: Pixels, boxes: Sequence[Payload], maps: Sequence[PatchMap], rows_find: bool
) -> tuple[Pixels, ...]:
    """The picture with all boxes, then for each map with the box that its row found."""
    if not boxes:
        return ()
    drawn = {
        one["row"]: LabelledBox(tuple(one["box"]), one["label"], one["probability"])
        for one in boxes
    }
    own = [[drawn[one.row]] if rows_find and one.row in drawn else [] for one in maps]
    return tuple(with_boxes(pixels, some) for some in ([*drawn.values()], *own))


def _rows(payload: Payload, view: View, selected: Selected) -> Sequence[int | None]:
    if selected.token is not None:
        return [selected.token]
    if view.rows.grid is not None:
        return range(view.rows.n_before) or [None]
    if _is_target(payload, view) and "boxes" in payload:
        return [*_found(payload)] or [None]
    return range(len(view.rows))


def _found(payload: Payload) -> Iterator[int]:
    """Rows that found an object."""
    yield from (one["row"] for one in payload["boxes"])


def _is_target(payload: Payload, view: View) -> bool:
    return view.rows.labels == tuple(payload["target_tokens"])
