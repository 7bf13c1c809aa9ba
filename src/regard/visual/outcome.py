"""What a look says came out, in words; the payload has it as ``outcome`` (see ``payload``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from regard.visual.payload import Payload

_PLACES = 8
"""So many places have their choices told."""


def came_out(payload: Payload) -> str:
    """The translation, or what stands for it: a label, an answer, a text."""
    told = payload.get("outcome")
    return payload["translation"] if told is None else told["text"]


def choices_told(payload: Payload) -> list[str]:
    """A line a place, with the shares of what may stand there; none where there are too many.

    What a language model may say next is told row by row elsewhere.
    """
    told = payload.get("outcome")
    if told is None or told["kind"] == "text":
        return []
    places = told["places"][:_PLACES]
    return [_line(place, payload["source_tokens"], len(places)) for place in places]


def _line(place: Mapping[str, Any], tokens: Sequence[str], n_places: int) -> str:
    shares = [f"{one['text']} {100 * one['probability']:.1f} %" for one in place["choices"]]
    rows = place["rows"]
    where = f"{tokens[rows[0]]} {rows[0]}: " if rows and n_places > 1 else ""
    return where + ", ".join(shares)
