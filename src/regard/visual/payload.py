"""The payload: the one JSON object that every picture of a look is drawn from.

Keys: ``source``, ``answer`` (what came out), ``source_tokens``, ``target_tokens``, ``attentions``
(name → [layer][head][t][s]), ``axes`` (name → the sides that are its rows and columns), ``sides``
(side → ``kind``, ``labels``, ``grid``: see ``Axis``) and ``edits``. A written answer is also the
``translation``. A look that is no translator's has its ``task`` and an ``outcome``: ``kind``,
``text`` and ``places``, each with the ``rows`` where it stands (null is the whole text) and its
``choices``, most probable first. Where a target was written, ``probabilities`` has how probable
each of its tokens was after those before it, and ``alternatives`` the most probable ``choices`` in
the place of each.

A look at a picture has it as ``picture``, a data URL. Where rows have a gate (β), ``gates`` has one
a row of the target; where attention is hard, ``drawn`` has the patch that each row took. Where
objects were found, ``boxes`` has ``{label, probability, box, row}``: left, top, right and bottom as
shares of the sides, and the row of the target that found it.

Along the sides of an attention stand tokens, patches of a picture, frames, nodes or slots, which
cover several tokens each. Nothing that draws assumes words: it asks an ``Axis`` for its labels, and
for its grid where it lies in a plane.

In an HTML file arrays are packed, ``{"shape", "bits", "data"}``: numbers as 32-bit floats or 8-bit
shares of 1, deflated, in base64; the browser unpacks them by itself. Of the floats all first bytes
come first, then all second ones: alike bytes side by side deflate better. All weights stay exact
where that is small. A long sentence gets 8-bit weights for the overview and exact ones for one
layer: rows sum to 1, so most of the bytes are small.
"""

from __future__ import annotations

import base64
import math
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from regard.core.errors import ConfigError, ShapeError
from regard.core.numbers import counted
from regard.core.registry import did_you_mean
from regard.visual.theme import probability

Payload = Mapping[str, Any]
PAIR_SEPARATOR = "\t"  # stands between the two texts of a ``source`` that is a pair
Array = npt.NDArray[np.float64]
_PLACES = 8  # so many places have their choices told
EXACT_WEIGHTS = 250_000  # as many weights are all kept exact: 1 MB of floats
STEP_NUMBERS = 400_000  # as many numbers of steps are kept; heads beyond that are left out

ROLLOUT = "rollout of "
"""Before the name of an attention whose layers were multiplied."""
_BY_KEY = ("scores", "scaled", "prior", "weights")
_VECTORS = ("query", *_BY_KEY, "sum", "projected", "residual")
Kind = Literal["tokens", "patches", "frames", "nodes", "slots"]
SLOTS = ".slots"
"""Behind the name of a side whose positions are joined three by three; its labels say which."""

# ------------------------------------------------------------------ axes


@dataclass(frozen=True, slots=True)
class Axis(Sequence[str]):
    """The positions along one side; as a sequence it is their labels."""

    labels: tuple[str, ...]
    kind: Kind = "tokens"
    grid: tuple[int, int] | None = None
    """Of patches: rows and columns of the picture, row by row. What stands before the patches (a
    class token) has labels of its own and no place in the grid."""

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise ConfigError(f"an axis is of {', '.join(get_args(Kind))}, not of {self.kind!r}")
        if (self.kind == "patches") != (self.grid is not None):
            raise ConfigError(f"patches alone have a grid, got {self.kind} and {self.grid}")
        if self.n_before < 0:
            raise ShapeError(f"a grid of {self.grid} patches needs more than {len(self)} labels")

    @classmethod
    def patches(cls, rows: int, columns: int, before: Sequence[str] = ()) -> Axis:
        """Patches named by their row and column, after what stands before them."""
        names = (f"{row},{column}" for row in range(rows) for column in range(columns))
        return cls((*before, *names), "patches", (rows, columns))

    @classmethod
    def frames(cls, n: int, seconds: float | None = None) -> Axis:
        """Frames named by when they begin, or by their number where their length is not known."""
        names = (str(i) if seconds is None else f"{i * seconds:.2f}s" for i in range(n))
        return cls(tuple(names), "frames")

    def compressed(self, stride: int) -> Axis:
        """The slots of so many positions: the null, then each by the first and last it covers."""
        begins = range(0, len(self) - stride + 1, stride)
        return Axis(("null", *(f"[{i}–{i + stride - 1}]" for i in begins)), "slots")

    @property
    def n_before(self) -> int:
        """Positions before the first patch; 0 where there is no grid."""
        return 0 if self.grid is None else len(self.labels) - self.grid[0] * self.grid[1]

    def __getitem__(self, i: Any) -> Any:
        return self.labels[i]

    def __len__(self) -> int:
        return len(self.labels)

    def as_json(self) -> dict[str, Any]:
        """``kind``, ``labels`` and, of patches, ``grid``."""
        grid = {} if self.grid is None else {"grid": list(self.grid)}
        return {"kind": self.kind, "labels": list(self.labels), **grid}

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> Axis:
        """What ``as_json`` gave."""
        grid = said.get("grid")
        return cls(tuple(said["labels"]), said["kind"], None if grid is None else tuple(grid))


def token_sides(source: Sequence[str], target: Sequence[str]) -> dict[str, Axis]:
    """The sides of a look at texts: ``input`` is what a decoder has read when it writes a token.

    ``read`` is the same of a decoder that has read the source, too.
    """
    read, written = Axis(tuple(source)), Axis(tuple(target))
    before, both = Axis(("<s>", *written[:-1])), Axis((*read, *written))
    sides = {"source": read, "target": written, "label": written, "input": before, "text": both}
    return {**sides, "read": Axis((*read, *before))}


def sides_of(payload: Mapping[str, Any]) -> dict[str, Axis]:
    """The sides that a payload names; of one that names none, those of its tokens."""
    tokens = token_sides(payload["source_tokens"], payload["target_tokens"])
    return tokens | {name: Axis.from_json(one) for name, one in payload.get("sides", {}).items()}


def named_sides(name: str) -> dict[str, str]:
    """Which sides an attention has where nothing says so: its name tells."""
    if name == "encoder.self":
        return {"rows": "source", "columns": "source"}
    return {"rows": "target", "columns": "input" if name == "decoder.self" else "source"}


# ------------------------------------------------------------------ what is shown of a look


@dataclass(frozen=True, slots=True)
class Selected:
    """What of a look is shown first; None leaves the choice to the picture."""

    name: str | None = None
    layer: int | None = None
    head: int | None = None
    token: int | None = None  # a row, counted from 0, whose steps are open
    every_head: bool = False  # all heads side by side, in pictures that are written to a file
    patches: bool = False  # draw weights over a picture as patches, not upsampled smoothly


@dataclass(frozen=True, slots=True)
class View:
    """One attention of one layer: its weights and what stands along both sides."""

    name: str
    layer: int
    weights: Array  # (H, T, S)
    rows: Axis
    columns: Axis

    def head(self, head: int | None) -> Array:
        """(T, S) of one head; None is the mean of all."""
        if head is None:
            return self.weights.mean(axis=0)
        if not 0 <= head < len(self.weights):
            raise ConfigError(f"{self.name} has heads 0 to {len(self.weights) - 1}, not {head}")
        return self.weights[head]

    def title(self, head: int | None) -> str:
        """What is shown, in words."""
        if self.name.startswith(ROLLOUT):
            return self.name
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
    rows, columns = axes_of(payload, name)
    return View(name, which, np.asarray(layers[which], dtype=np.float64), rows, columns)


class DrawnMatrix(NamedTuple):
    """A matrix to be drawn, with its labels."""

    weights: Array  # (T, S), or (rows, columns) of a picture's patches
    rows: Sequence[str]
    columns: Sequence[str]
    title: str
    axes: tuple[str, str] | None = None  # what rows and columns are: target, source, patches, …


def drawn(payload: Payload, selected: Selected) -> DrawnMatrix:
    """The matrix that is selected; where a row is that looks at patches, its map of the picture."""
    one = selected_view(payload, selected)
    weights, title = one.head(selected.head), one.title(selected.head)
    grid = one.columns.grid
    if selected.token is None or grid is None:
        return DrawnMatrix(weights, one.rows, one.columns, title, _axis_names(payload, one))
    row = weights[selected.token, one.columns.n_before :].reshape(grid)
    rows, columns = (tuple(map(str, range(n))) for n in grid)
    return DrawnMatrix(row, rows, columns, f"{title}, {one.rows[selected.token]} → patches")


def _axis_names(payload: Payload, one: View) -> tuple[str, str]:
    """What stands along both sides, as the page calls it: a text by its side, else by its kind."""
    said = payload.get("axes", {}).get(one.name) or named_sides(one.name)
    kinds = {"rows": one.rows.kind, "columns": one.columns.kind}
    rows, columns = (said[key] if kinds[key] == "tokens" else kinds[key] for key in kinds)
    return rows, columns


def selected_view(payload: Payload, selected: Selected) -> View:
    """The attention and layer that are selected; by default the main one's last layer."""
    return view(payload, selected.name or main_attention(payload), selected.layer)


def axes_of(payload: Payload, name: str) -> tuple[Axis, Axis]:
    """What stands along the rows and along the columns of an attention."""
    said = payload.get("axes", {}).get(name) or named_sides(name)
    sides = sides_of(payload)
    return sides[said["rows"]], sides[said["columns"]]


def main_attention(payload: Payload) -> str:
    """The one to begin with: ``decoder.cross`` where there is one, else the first."""
    names = list(payload["attentions"])
    if not names:
        raise ConfigError("this system does not attend: there are no weights to draw")
    return "decoder.cross" if "decoder.cross" in names else names[0]


def answer_of(payload: Payload) -> str:
    """A translation, a label, an answer, a text."""
    told = payload.get("outcome")
    return str(payload["translation"] if told is None else told["text"])


def choice_lines(payload: Payload) -> list[str]:
    """A line a place, with the shares of what may stand there; none for a written text."""
    told = payload.get("outcome")
    if told is None or told["kind"] == "text":
        return []
    lines, places = [], told["places"][:_PLACES]
    tokens = payload["target_tokens" if told["kind"] == "boxes" else "source_tokens"]
    for place in places:
        shares = [(one["text"], probability(one["probability"])) for one in place["choices"]]
        row = place["rows"][0] if place["rows"] and len(places) > 1 else None
        where = "" if row is None else f"{tokens[row]} {row}: "
        lines.append(where + ", ".join(f"{text} {share}" for text, share in shares))
    return lines


def probability_line(payload: Payload) -> str:
    """Each token that was written, with how probable it was; empty where nothing was."""
    pairs = zip(payload["target_tokens"], payload.get("probabilities", ()), strict=False)
    return ", ".join(f"{token} {probability(share)}" for token, share in pairs)


def packed(array: Any, *, bits: int = 32) -> dict[str, Any]:
    """One array of any shape; ``bits`` 8 is for numbers from 0 to 1."""
    numbers = np.asarray(array, dtype=np.float32)
    if bits == 8:
        raw = np.round(np.clip(numbers, 0, 1) * 255).astype(np.uint8).tobytes()
    else:
        raw = numbers.astype("<f4").reshape(-1, 1).view(np.uint8).T.tobytes()
    text = base64.b64encode(zlib.compress(raw, 6)).decode("ascii")
    return {"shape": list(numbers.shape), "bits": bits, "data": text}


MOST_BYTES = 2**28
"""Of one layer's weights that are unpacked."""


def unpacked(one: Mapping[str, Any]) -> npt.NDArray[np.float32]:
    """The array that ``packed`` was given; with 8 bits, in steps of 1/255.

    It may come from anybody: more bytes than its shape has are never made.
    """
    size = math.prod(one["shape"]) * one["bits"] // 8
    if not 0 <= size <= MOST_BYTES:
        raise ValueError(f"not packed weights: the shape {one['shape']} has {size} bytes")
    try:
        data = zlib.decompressobj().decompress(base64.b64decode(one["data"]), size + 1)
    except zlib.error as error:
        raise ValueError(f"not packed weights: {error}") from None
    if len(data) != size:
        raise ValueError(f"not packed weights: {len(data)} bytes, where the shape has {size}")
    raw = np.frombuffer(data, np.uint8)
    if one["bits"] == 8:
        numbers = raw.astype(np.float32) / 255
    else:
        numbers = raw.reshape(4, -1).T.copy().view("<f4").astype(np.float32)
    return numbers.reshape(one["shape"])


def packed_payload(payload: Payload, selected: Selected) -> dict[str, Any]:
    """The payload with each layer packed (H, T, S); what is ``selected`` is exact in any case."""
    attentions = {
        name: [np.asarray(layer, dtype=np.float32) for layer in layers]
        for name, layers in payload["attentions"].items()
    }
    if not attentions:
        return {**payload, "attentions": {}}
    shown = selected_view(payload, selected)
    few = sum(one.size for layers in attentions.values() for one in layers) <= EXACT_WEIGHTS
    told: dict[str, list[dict[str, Any]]] = {name: [] for name in attentions}
    for name, layers in attentions.items():
        for i, layer in enumerate(layers):
            exact = few or (name, i) == (shown.name, shown.layer)
            told[name].append(packed(layer, bits=32 if exact else 8))
    first = {"name": shown.name, "layer": shown.layer}
    first |= {"head": selected.head, "token": selected.token}
    if selected.patches:
        first["patches"] = True
    return {**payload, "attentions": told, "selected": first}


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
        room -= 2 * len(rows[0]["keys"]) * len(rows[0]["query"])  # keys and values of all
        room -= sum(len(row[key]) for row in rows for key in _VECTORS if row.get(key) is not None)
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
