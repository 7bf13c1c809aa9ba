"""Heads as points of a plane: near each other where they look alike, large where they matter."""

from __future__ import annotations

import cmath
import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from regard.visual.head_table import HeadColumn, columns_of, cost_of
from regard.visual.svg import Attributes, Markup, element, picture
from regard.visual.theme import colour_of

_PANEL, _MARGIN, _TOP, _LINE = 250, 30, 58, 16
_LETTER = 6.4  # width of an average letter at the size used here; SVG text cannot be measured
_SMALLEST, _LARGEST = 3.5, 12.0
_RINGS, _WAYS = 16, 16
_STEP = 9  # from one ring to the next
_ROUNDS, _BETWEEN = 100, 2.0  # how often marks are pushed, and what stays free
_KEY = (
    "A point is a head, named layer.head. Near = looks alike; colour = cluster; each attention has "
    "a map and colours of its own. Marks that would cover each other are moved apart. Area = "
    "{cost} when the head is ablated{most}; a ring costs none, or cannot be ablated."
)
_COSTS = {
    "loss_change": ("loss added", "{:+.3f} nats a token"),
    "moved_change": ("how far vectors turn", "{:.4f}"),
}
"""What the area of a mark is, and how the largest is told."""
_SAID, _DIGITS = {"bleu_change": "BLEU"}, {"bleu_change": 2}


def head_map(heads: Mapping[str, Any]) -> str:
    """Draw the JSON of ``regard heads``: one panel an attention, all at one scale."""
    names = list(dict.fromkeys(row["name"] for row in heads["rows"]))
    members = [[i for i, row in enumerate(heads["rows"]) if row["name"] == n] for n in names]
    axes = [axis for some in members for axis in zip(*(heads["map"][i] for i in some), strict=True)]
    widest = max((max(axis) - min(axis) for axis in axes), default=0.0)
    scale = (_PANEL - 2 * _MARGIN) / widest if widest > 0 else 0.0
    panels = [_panel(heads, some, float(_PANEL * i), scale) for i, some in enumerate(members)]
    width, below = _PANEL * len(names), _TOP + _PANEL + _LINE
    room = max(20, int((width - 12) / _LETTER))  # letters of a line
    lines = [*textwrap.wrap(_key(heads), room), *textwrap.wrap(heads["caveat"], room)]
    notes = [
        element("text", text, x=6, y=below + 4 + _LINE * i, fill_opacity=0.72)
        for i, text in enumerate(lines)
    ]
    title = f"Heads on {heads['n']:,} {'sentences' if 'n_bleu' in heads else 'texts'}"
    return picture(
        element("text", title, x=4, y=17, font_size=15, font_weight=600),
        *panels,
        *notes,
        size=(width, _TOP + _PANEL + _LINE * len(notes) + 8),
        label=f"{title}: {len(heads['rows'])} heads of {', '.join(names)}",
        font_size=12,
    )


def _key(heads: Mapping[str, Any]) -> str:
    """How to read the map."""
    column, costs = cost_of(heads)
    cost, written = _COSTS.get(column.key, (f"{_plain(column)} lost", "{:.3f}"))
    largest = _largest(costs)
    most = f" (the largest: {written.format(largest)})" if largest > 0 else ""
    return _KEY.format(cost=cost, most=most)


def _plain(column: HeadColumn) -> str:
    """The name of a score whose change it is."""
    return column.key.removesuffix("_change").replace("_", " ")


def _panel(heads: Mapping[str, Any], members: Sequence[int], left: float, scale: float) -> Markup:
    """The heads of one name; larger marks lie below smaller ones."""
    rows, clusters, (_, costs) = heads["rows"], heads["clusters"], cost_of(heads)
    room = Box(left + 4, _TOP, _PANEL - 8, _PANEL)
    marks = moved_apart(_marks(heads, members, left, scale), room)
    colours = {one: colour_of(k) for k, one in enumerate(sorted({clusters[i] for i in members}))}
    dots = {}
    for mark, i in zip(marks, members, strict=True):
        colour, dash = colours[clusters[i]]
        fill: Attributes = {
            "fill": colour if (costs[i] or 0.0) > 0 else "none",
            "fill_opacity": 0.8,
        }
        line: Attributes = {"stroke": colour, "stroke_width": 1.5, "stroke_dasharray": dash}
        where = {f"data_{key}": rows[i][key] for key in ("name", "layer", "head")}
        story = element("title", _story(rows[i], clusters[i], columns_of(heads)))
        place = {"cx": mark.x, "cy": mark.y, "r": mark.radius}
        data = {**where, "data_cluster": clusters[i]}
        dots[mark] = element("circle", story, **place, **fill, **line, **data)
    labels = zip(marks, place_labels(marks, room), members, strict=True)
    frame: Attributes = {"rx": 6, "fill": "none", "stroke": "currentColor", "stroke_opacity": 0.2}
    return element(
        "g",
        element("rect", **room._asdict(), **frame),
        element("text", rows[members[0]]["name"], x=left + 6, y=_TOP - 10),
        *(dots[mark] for mark in sorted(dots, key=lambda mark: -mark.radius)),
        *(_label(mark, box, _name(rows[i])) for mark, box, i in labels),
    )


def _marks(
    heads: Mapping[str, Any], members: Sequence[int], left: float, scale: float
) -> list[Mark]:
    """Where heads stand; area tells the cost, for that is what an eye compares."""
    points, (_, costs) = [heads["map"][i] for i in members], cost_of(heads)
    middle = [(min(axis) + max(axis)) / 2 for axis in zip(*points, strict=True)]
    largest = _largest(costs) or 1.0
    return [
        Mark(
            x=left + _PANEL / 2 + scale * (x - middle[0]),
            y=_TOP + _PANEL / 2 - scale * (y - middle[1]),
            radius=max(_SMALLEST, _LARGEST * math.sqrt(max(0.0, costs[i] or 0.0) / largest)),
            width=_LETTER * len(_name(heads["rows"][i])) + 2,
            height=12,
        )
        for i, (x, y) in zip(members, points, strict=True)
    ]


def _largest(costs: Sequence[float | None]) -> float:
    return max((cost or 0.0 for cost in costs), default=0.0)


def _name(row: Mapping[str, Any]) -> str:
    return f"{row['layer']}.{row['head']}"


def _story(row: Mapping[str, Any], cluster: int, told: Sequence[HeadColumn]) -> str:
    worth = [
        f"{_SAID.get(one.key, _plain(one))} {row[one.key]:+.{_DIGITS.get(one.key, 4)}f}"
        for one in told
        if one.key.endswith("_change") and row[one.key] is not None
    ]
    cost = "without it " + ", ".join(worth) if worth else "what it is worth is not known"
    where = f"{row['name']} layer {row['layer']} head {row['head']}"
    return f"{where}: cluster {cluster}; {cost}; entropy {row['entropy']:.2f} bits"


def _label(mark: Mark, box: Box, name: str) -> Markup:
    """The name, and a fine line to its mark where it could not stand beside it."""
    x, y = box.x + box.width / 2, box.y + box.height / 2
    text = element("text", name, x=x, y=y + 4, font_size=11, text_anchor="middle")
    if math.hypot(x - mark.x, y - mark.y) - mark.radius < box.width / 2 + 8:
        return text
    ends = {"x1": mark.x, "y1": mark.y, "x2": x, "y2": y}
    return element("g", element("line", **ends, stroke="currentColor", stroke_opacity=0.35), text)


class Box(NamedTuple):
    """A rectangle, from its upper left corner."""

    x: float
    y: float
    width: float
    height: float

    def meets(self, other: Box) -> bool:
        """Whether they share any place."""
        beside = self.x < other.x + other.width and other.x < self.x + self.width
        return beside and self.y < other.y + other.height and other.y < self.y + self.height

    def holds(self, other: Box) -> bool:
        """Whether the other lies inside."""
        right, bottom = other.x + other.width, other.y + other.height
        before = self.x <= other.x and self.y <= other.y
        return before and right <= self.x + self.width and bottom <= self.y + self.height


class Mark(NamedTuple):
    """A circle, and the size of its name."""

    x: float
    y: float
    radius: float
    width: float
    height: float


def place_labels(marks: Sequence[Mark], room: Box) -> list[Box]:
    """A box for each name: inside the room, beside its mark, clear of marks and other names.

    The nearest free place is taken; where none is free, the first one that was tried.
    """
    taken = [Box(m.x - m.radius, m.y - m.radius, 2 * m.radius, 2 * m.radius) for m in marks]
    for mark in marks:
        tried = list(_places(mark))
        free = (b for b in tried if room.holds(b) and not any(map(b.meets, taken)))
        taken.append(next(free, tried[0]))
    return taken[len(marks) :]


def _places(mark: Mark) -> Iterator[Box]:
    """Around the mark, right first, then farther out."""
    _, _, radius, width, height = mark
    for ring in range(_RINGS):
        for way in range(_WAYS):
            angle = 2 * math.pi * way / _WAYS
            # From the mark's rim to the middle of the name, so that it just clears the mark.
            reach = radius + 3 + _STEP * ring
            x = mark.x + (reach + width / 2) * math.cos(angle)
            y = mark.y - (reach + height / 2) * math.sin(angle)
            yield Box(x - width / 2, y - height / 2, width, height)


def moved_apart(marks: Sequence[Mark], room: Box) -> list[Mark]:
    """The marks, each pushed by half of what is missing, until none covers another.

    Those that cover none stay where they are, and all stay inside the room, where there is one.
    """
    at = [complex(mark.x, mark.y) for mark in marks]
    pairs = [(i, j) for j in range(len(at)) for i in range(j)]

    def missing(i: int, j: int) -> float:
        return marks[i].radius + marks[j].radius + _BETWEEN - abs(at[j] - at[i])

    def inside(place: complex, radius: float) -> complex:
        x = min(max(place.real, room.x + radius), room.x + room.width - radius)
        y = min(max(place.imag, room.y + radius), room.y + room.height - radius)
        return complex(x, y)

    for _ in range(_ROUNDS):
        close = [pair for pair in pairs if missing(*pair) > 0.1]
        if not close:
            break
        for i, j in close:
            between = at[j] - at[i]
            # Along the line between them; where they share a place, their numbers give a way.
            turn = i + 2 * j if abs(between) < 1e-6 else cmath.phase(between)
            push = cmath.rect(max(0.0, missing(i, j)) / 2, turn)
            at[i] = inside(at[i] - push, marks[i].radius)
            at[j] = inside(at[j] + push, marks[j].radius)
    return [mark._replace(x=one.real, y=one.imag) for mark, one in zip(marks, at, strict=True)]
