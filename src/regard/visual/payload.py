"""Reading the payload: the one JSON object that every picture of a look is drawn from.

Its keys: ``source``, ``translation``, ``source_tokens``, ``target_tokens``, ``attentions`` (name →
[layer][head][t][s]), ``axes`` (name → whose tokens rows and columns are) and ``edits``. A look that
is no translator's also has its ``task`` and an ``outcome``: ``kind``, ``text`` and ``places``, each
with the ``rows`` where it stands (null is the whole text) and its ``choices``, most probable first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.core.counting import counted
from regard.core.errors import ConfigError
from regard.core.registry import did_you_mean

Payload = Mapping[str, Any]
PAIRED = "\t"
"""Stands between the two texts of a ``source`` that is a pair."""
Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Selected:
    """What of a look is shown first; None leaves the choice to the picture."""

    name: str | None = None
    layer: int | None = None
    head: int | None = None
    token: int | None = None
    """A row, counted from 0, whose steps are open."""


@dataclass(frozen=True, slots=True)
class View:
    """One attention of one layer: its weights and the tokens of both sides."""

    name: str
    layer: int
    weights: Array
    """(H, T, S)."""
    rows: tuple[str, ...]
    columns: tuple[str, ...]

    def head(self, head: int | None) -> Array:
        """(T, S) of one head; None is the mean of all."""
        if head is None:
            return self.weights.mean(axis=0)
        if not 0 <= head < len(self.weights):
            raise ConfigError(f"{self.name} has heads 0 to {len(self.weights) - 1}, not {head}")
        return self.weights[head]

    def title(self, head: int | None) -> str:
        """What is shown, in words."""
        which = f"mean of {counted(len(self.weights), 'head')}" if head is None else f"head {head}"
        return f"{self.name}, layer {self.layer}, {which}"


def view(payload: Payload, name: str, layer: int | None = None) -> View:
    """One attention of the payload; without a layer the last one, layers count from 0."""
    attentions = payload["attentions"]
    if name not in attentions:
        known = ", ".join(attentions) or "none: this system does not attend"
        raise ConfigError(f"no attention {name!r}{did_you_mean(name, attentions)}; known: {known}")
    layers = attentions[name]
    which = len(layers) - 1 if layer is None else layer
    if not 0 <= which < len(layers):
        raise ConfigError(f"{name} has layers 0 to {len(layers) - 1}, not {which}")
    rows, columns = tokens_of(payload, name)
    return View(name, which, np.asarray(layers[which], dtype=np.float64), rows, columns)


def selected_view(payload: Payload, selected: Selected) -> View:
    """The attention and layer that are selected; by default the main one's last layer."""
    return view(payload, selected.name or main_attention(payload), selected.layer)


def tokens_of(payload: Payload, name: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Whose rows and whose columns an attention has."""
    target = tuple(payload["target_tokens"])
    sides = {
        "source": tuple(payload["source_tokens"]),
        "target": target,
        "label": target,
        "input": ("<s>", *target[:-1]),
        "text": (*payload["source_tokens"], *target),
    }
    axes = axes_of(payload, name)
    return sides[axes["rows"]], sides[axes["columns"]]


def axes_of(payload: Payload, name: str) -> Mapping[str, str]:
    """What the payload says; else what the name says."""
    said = payload.get("axes", {}).get(name)
    if said is not None:
        return dict(said)
    if name == "encoder.self":
        return {"rows": "source", "columns": "source"}
    return {"rows": "target", "columns": "input" if name == "decoder.self" else "source"}


def main_attention(payload: Payload) -> str:
    """The one to begin with: ``decoder.cross`` where there is one, else the first."""
    names = list(payload["attentions"])
    if not names:
        raise ConfigError("this system does not attend: there are no weights to draw")
    return "decoder.cross" if "decoder.cross" in names else names[0]
