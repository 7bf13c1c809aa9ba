"""Weights and steps made small enough for one HTML file.

An array becomes ``{"shape", "bits", "data"}``: its numbers as 32-bit floats or as 8-bit shares of
1, deflated, in base64. The browser unpacks them by itself (``DecompressionStream``). Of the floats
all first bytes come first, then all second ones: alike bytes side by side deflate better.

All weights stay exact where that is small. A long sentence gets 8-bit weights for the overview and
exact ones for one layer: rows sum to 1, so most of the bytes are small and deflate well.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np

from regard.visual.payload import Payload, Selected, selected_view

EXACT_WEIGHTS = 250_000
"""As many weights are all kept exact: 1 MB of floats."""
STEP_NUMBERS = 400_000
"""As many numbers of steps are kept; heads beyond that are left out."""

_BY_KEY = ("scores", "scaled", "prior", "weights")
_VECTORS = ("query", *_BY_KEY, "sum", "projected", "residual")


def packed(array: Any, *, bits: int = 32) -> dict[str, Any]:
    """One array of any shape; ``bits`` 8 is for numbers from 0 to 1."""
    numbers = np.asarray(array, dtype=np.float32)
    if bits == 8:
        raw = np.round(np.clip(numbers, 0, 1) * 255).astype(np.uint8).tobytes()
    else:
        raw = numbers.astype("<f4").reshape(-1, 1).view(np.uint8).T.tobytes()
    text = base64.b64encode(zlib.compress(raw, 6)).decode("ascii")
    return {"shape": list(numbers.shape), "bits": bits, "data": text}


def packed_payload(payload: Payload, selected: Selected) -> dict[str, Any]:
    """The payload with its attentions packed: name -> one packed (H, T, S) a layer.

    What is selected is exact in any case, and told under ``selected``.
    """
    attentions = {
        name: [np.asarray(layer, dtype=np.float32) for layer in layers]
        for name, layers in payload["attentions"].items()
    }
    n = sum(layer.size for layers in attentions.values() for layer in layers)
    if not attentions:
        return {**payload, "attentions": {}}
    shown = selected_view(payload, selected)
    chosen = (shown.name, shown.layer)
    return {
        **payload,
        "attentions": {
            name: [
                packed(layer, bits=32 if n <= EXACT_WEIGHTS or (name, i) == chosen else 8)
                for i, layer in enumerate(layers)
            ]
            for name, layers in attentions.items()
        },
        "selected": {
            "name": shown.name,
            "layer": shown.layer,
            "head": selected.head,
            "token": selected.token,
        },
    }


def packed_steps(steps: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Steps of several tokens, a group a head: keys and values are the same for all its tokens.

    What follows from the rest is left out, and the reader computes it again: the weighted values,
    scaled scores that are the scores times the scale, a residual that is what was projected. Whole
    heads are kept, in the order given, until the file would grow too large; one always is.
    """
    groups: list[dict[str, Any]] = []
    room = STEP_NUMBERS
    for _, members in groupby(steps, key=lambda one: (one["name"], one["layer"], one["head"])):
        rows = list(members)
        room -= _size(rows)
        if room < 0 and groups:
            break
        groups.append(_group(rows))
    return groups


def _group(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    first = rows[0]
    # A later row may see more keys than an earlier one had computed: the longest has them all.
    longest = max(rows, key=lambda row: len(row["columns"]))
    group: dict[str, Any] = {key: first[key] for key in ("name", "layer", "head", "scale")}
    group["columns"] = list(longest["columns"])
    group["rows"] = [[row["token"], row["row"], len(row["columns"])] for row in rows]
    group["keys"], group["values"] = packed(longest["keys"]), packed(longest["values"])
    n = len(longest["columns"])
    group["visible"] = packed([_padded(row["visible"], n) for row in rows], bits=8)
    for key in _VECTORS:
        if first.get(key) is not None:
            wide = n if key in _BY_KEY else len(first[key])
            group[key] = np.array([_padded(row[key], wide) for row in rows])
    if first["scale"] is not None and _alike(group["scaled"], group["scores"] * first["scale"]):
        del group["scaled"]
    if "residual" in group and _alike(group["residual"], group["projected"]):
        group["residual"] = "projected"
    return {key: packed(one) if isinstance(one, np.ndarray) else one for key, one in group.items()}


def _alike(one: Any, other: Any) -> bool:
    return np.allclose(one, other, rtol=1e-6, atol=1e-12, equal_nan=True)


def _padded(numbers: Sequence[float | None], n: int) -> list[float]:
    known = [np.nan if number is None else float(number) for number in numbers]
    return known + [0.0] * (n - len(known))


def _size(rows: Sequence[Mapping[str, Any]]) -> int:
    shared = 2 * len(rows[0]["keys"]) * len(rows[0]["query"])
    return shared + sum(
        len(row[key]) for row in rows for key in _VECTORS if row.get(key) is not None
    )
