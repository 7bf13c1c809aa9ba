"""Heads as points of a plane: near each other where they look alike, large where they matter."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from regard.visual.head_table import HeadColumn, columns_of, cost_of
from regard.visual.svg import Markup, element, picture
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
    scale = _scale([[heads["map"][i] for i in some] for some in members])
    panels = [_panel(heads, some, left, scale) for left, some in _lefts(members)]
    width = _PANEL * len(names)
    notes = [*_wrapped(_key(heads), width), *_wrapped(heads["caveat"], width)]
    title = f"Heads on {heads['n']:,} {'sentences' if 'n_bleu' in heads else 'texts'}"
    height = _TOP + _PANEL + _LINE * len(notes) + 8
    return picture(
        element("text", title, x=4, y=17, font_size=15, font_weight=600),
        *panels,
        *(_note(text, _TOP + _PANEL + _LINE * (i + 1)) for i, text in enumerate(notes)),
        box=f"0 0 {width} {height}",
        width=width,
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


def _lefts(members: Sequence[list[int]]) -> list[tuple[float, list[int]]]:
    return [(float(_PANEL * i), some) for i, some in enumerate(members)]


def _panel(heads: Mapping[str, Any], members: Sequence[int], left: float, scale: float) -> Markup:
    """The heads of one name; larger marks lie below smaller ones."""
    room = Box(left + 4, _TOP, _PANEL - 8, _PANEL)
    marks = moved_apart(_marks(heads, members, left, scale), room)
    colours = _colours([heads["clusters"][i] for i in members])
    labels = place_labels(marks, room)
    costs, told = cost_of(heads)[1], columns_of(heads)
    ordered = sorted(zip(marks, members, strict=True), key=lambda pair: -pair[0].radius)
    named = zip(marks, labels, members, strict=True)
    return element(
        "g",
        element(
            "rect",
            x=room.x,
            y=room.y,
            width=room.width,
            height=room.height,
            rx=6,
            fill="none",
            stroke="currentColor",
            stroke_opacity=0.2,
        ),
        element("text", heads["rows"][members[0]]["name"], x=left + 6, y=_TOP - 10),
        *(
            _dot(mark, heads["rows"][i], heads["clusters"][i], colours, costs[i], told)
            for mark, i in ordered
        ),
        *(_label(mark, box, heads["rows"][i]) for mark, box, i in named),
    )


def _marks(
    heads: Mapping[str, Any], members: Sequence[int], left: float, scale: float
) -> list[Mark]:
    points = [heads["map"][i] for i in members]
    middle = [(min(axis) + max(axis)) / 2 for axis in zip(*points, strict=True)]
    costs = cost_of(heads)[1]
    largest = _largest(costs)
    return [
        Mark(
            x=left + _PANEL / 2 + scale * (x - middle[0]),
            y=_TOP + _PANEL / 2 - scale * (y - middle[1]),
            radius=_radius(costs[i], largest),
            width=_LETTER * len(_name(heads["rows"][i])) + 2,
            height=12,
        )
        for i, (x, y) in zip(members, points, strict=True)
    ]


def _scale(panels: Sequence[Sequence[Sequence[float]]]) -> float:
    """Pixels a unit, so that the widest panel fits."""
    spans = [max(axis) - min(axis) for points in panels for axis in zip(*points, strict=True)]
    largest = max(spans, default=0.0)
    return (_PANEL - 2 * _MARGIN) / largest if largest > 0 else 0.0


def _largest(costs: Sequence[float | None]) -> float:
    return max((cost or 0.0 for cost in costs), default=0.0)


def _radius(change: float | None, largest: float) -> float:
    """Area tells the cost, for that is what an eye compares."""
    share = max(0.0, change or 0.0) / largest if largest > 0 else 0.0
    return max(_SMALLEST, _LARGEST * math.sqrt(share))


def _name(row: Mapping[str, Any]) -> str:
    return f"{row['layer']}.{row['head']}"


def _colours(clusters: Sequence[int]) -> dict[int, tuple[str, str | None]]:
    """Colour and dashes of each cluster of one attention; dashes where colours are used up."""
    return {cluster: colour_of(i) for i, cluster in enumerate(sorted(set(clusters)))}


def _dot(
    mark: Mark,
    row: Mapping[str, Any],
    cluster: int,
    colours: Mapping[int, tuple[str, str | None]],
    cost: float | None,
    told: Sequence[HeadColumn],
) -> Markup:
    colour, dashes = colours[cluster]
    return element(
        "circle",
        element("title", _story(row, cluster, told)),
        cx=mark.x,
        cy=mark.y,
        r=mark.radius,
        fill=colour if (cost or 0.0) > 0 else "none",
        fill_opacity=0.8,
        stroke=colour,
        stroke_width=1.5,
        stroke_dasharray=dashes,
        data_name=row["name"],
        data_layer=row["layer"],
        data_head=row["head"],
        data_cluster=cluster,
    )


def _story(row: Mapping[str, Any], cluster: int, told: Sequence[HeadColumn]) -> str:
    worth = [
        f"{_SAID.get(one.key, _plain(one))} {row[one.key]:+.{_DIGITS.get(one.key, 4)}f}"
        for one in told
        if one.key.endswith("_change") and row[one.key] is not None
    ]
    cost = "without it " + ", ".join(worth) if worth else "what it is worth is not known"
    where = f"{row['name']} layer {row['layer']} head {row['head']}"
    return f"{where}: cluster {cluster}; {cost}; entropy {row['entropy']:.2f} bits"


def _label(mark: Mark, box: Box, row: Mapping[str, Any]) -> Markup:
    """The name, and a fine line to its mark where it could not stand beside it."""
    x, y = box.x + box.width / 2, box.y + box.height / 2
    text = element("text", _name(row), x=x, y=y + 4, font_size=11, text_anchor="middle")
    gap = math.hypot(x - mark.x, y - mark.y) - mark.radius
    if gap < box.width / 2 + 8:
        return text
    line = element(
        "line", x1=mark.x, y1=mark.y, x2=x, y2=y, stroke="currentColor", stroke_opacity=0.35
    )
    return element("g", line, text)


def _wrapped(text: str, width: float) -> list[str]:
    return textwrap.wrap(text, max(20, int((width - 12) / _LETTER)))


def _note(text: str, y: float) -> Markup:
    return element("text", text, x=6, y=y + 4, fill_opacity=0.72)


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle, from its upper left corner."""

    x: float
    y: float
    width: float
    height: float

    def meets(self, other: Box) -> bool:
        """Whether they share any place."""
        return (
            self.x < other.x + other.width
            and other.x < self.x + self.width
            and self.y < other.y + other.height
            and other.y < self.y + self.height
        )

    def holds(self, other: Box) -> bool:
        """Whether the other lies inside."""
        return (
            self.x <= other.x
            and self.y <= other.y
            and other.x + other.width <= self.x + self.width
            and other.y + other.height <= self.y + self.height
        )


@dataclass(frozen=True, slots=True)
class Mark:
    """A circle, and the size of its name."""

    x: float
    y: float
    radius: float
    width: float
    height: float

    @property
    def box(self) -> Box:
        """What it covers."""
        size = 2 * self.radius
        return Box(self.x - self.radius, self.y - self.radius, size, size)


def place_labels(marks: Sequence[Mark], room: Box) -> list[Box]:
    """A box for each name: inside the room, beside its mark, clear of marks and other names.

    The nearest free place is taken; where none is free, the first one that was tried.
    """
    taken = [mark.box for mark in marks]
    placed = []
    for mark in marks:
        tried = list(_places(mark))
        free = (b for b in tried if room.holds(b) and not any(map(b.meets, taken)))
        box = next(free, tried[0])
        taken.append(box)
        placed.append(box)
    return placed


def _places(mark: Mark) -> Iterator[Box]:
    """Around the mark, right first, then farther out."""
    for ring in range(_RINGS):
        for way in range(_WAYS):
            angle = 2 * math.pi * way / _WAYS
            # From the mark's rim to the middle of the name, so that it just clears the mark.
            reach_x = mark.radius + 3 + _STEP * ring + mark.width / 2
            reach_y = mark.radius + 3 + _STEP * ring + mark.height / 2
            x, y = mark.x + reach_x * math.cos(angle), mark.y - reach_y * math.sin(angle)
            yield Box(x - mark.width / 2, y - mark.height / 2, mark.width, mark.height)


def moved_apart(marks: Sequence[Mark], room: Box) -> list[Mark]:
    """The marks, each pushed by half of what is missing, until none covers another.

    Those that cover none stay where they are, and all stay inside the room, where there is one.
    """
    places = list(marks)
    pairs = [(i, j) for j in range(len(places)) for i in range(j)]
    for _ in range(_ROUNDS):
        close = [pair for pair in pairs if _missing(places[pair[0]], places[pair[1]]) > 0.1]
        if not close:
            break
        for i, j in close:
            places[i], places[j] = _pushed(places[i], places[j], i + 2 * j, room)
    return places


def _missing(a: Mark, b: Mark) -> float:
    return a.radius + b.radius + _BETWEEN - math.hypot(b.x - a.x, b.y - a.y)


def _pushed(a: Mark, b: Mark, number: int, room: Box) -> tuple[Mark, Mark]:
    """Along the line between them; where they share a place, the number gives a way."""
    half = max(0.0, _missing(a, b)) / 2
    together = math.hypot(b.x - a.x, b.y - a.y) < 1e-6
    turn = float(number) if together else math.atan2(b.y - a.y, b.x - a.x)
    across, down = half * math.cos(turn), half * math.sin(turn)
    return _inside(a, -across, -down, room), _inside(b, across, down, room)


def _inside(mark: Mark, across: float, down: float, room: Box) -> Mark:
    radius = mark.radius
    x = min(max(mark.x + across, room.x + radius), room.x + room.width - radius)
    y = min(max(mark.y + down, room.y + radius), room.y + room.height - radius)
    return replace(mark, x=x, y=y)
