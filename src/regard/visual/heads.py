"""What each head does: as tables, rounded for people or with all digits for programs; as a map.

On the map heads are points: near each other where they look alike, large where they matter.
"""

from __future__ import annotations

import cmath
import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from itertools import compress
from typing import Any, NamedTuple

from regard.evaluation.metrics import METRICS
from regard.visual.svg import Attributes, Markup, element, picture
from regard.visual.tables import Table, plain_console, show_table
from regard.visual.theme import FULL_COST, colour_of


class HeadColumn(NamedTuple):
    """One measure: its key in the JSON, its name, and how it is written."""

    key: str
    name: str
    unit: int
    format: str
    meaning: str

    def written(self, value: float) -> str:
        """A number as a table shows it; a change that would be rounded to 0 keeps one digit."""
        text = f"{self.unit * value:{self.format}}"
        if self.format.startswith("+") and value and not float(text):
            text = f"{self.unit * value:+.1g}"
        return text.replace("-", "−")


COLUMNS = (
    HeadColumn("entropy", "entropy", 1, ".2f", "of a row of weights, in bits"),
    HeadColumn("confidence", "conf", 100, ".0f", "largest weight of a row, in %"),
    HeadColumn("self", "self", 100, ".0f", "weight on the place itself, in %"),
    HeadColumn("previous", "prev", 100, ".0f", "on the word before, in %"),
    HeadColumn("next", "next", 100, ".0f", "on the word after, in %"),
    HeadColumn("first", "first", 100, ".0f", "on the first place, in %"),
    HeadColumn("separator", "end", 100, ".0f", "on the end token, in %"),
    HeadColumn("distance", "dist", 1, ".1f", "places to the words it looks at"),
    HeadColumn("pixel_distance", "px", 1, ".1f", "pixels to the patches it looks at"),
    HeadColumn("aer", "AER", 100, ".1f", "alignment error rate, in %"),
    HeadColumn("antecedent", "ante", 100, ".1f", "antecedents of pronouns found, in %"),
    HeadColumn("pointing", "point", 100, ".1f", "largest weight on an object that is meant, in %"),
    HeadColumn("loss_change", "Δloss", 1, "+.3f", "nats per token, when the head is ablated"),
    HeadColumn("bleu_change", "ΔBLEU", 1, "+.1f", "of greedy search, when the head is ablated"),
    HeadColumn("true_captions_change", "Δtrue", 100, "+.1f", "true in %, when it is ablated"),
    HeadColumn("accuracy_change", "Δacc", 100, "+.1f", "accuracy in %, when the head is ablated"),
    HeadColumn("spearman_change", "Δrho", 1, "+.3f", "Spearman, when the head is ablated"),
    HeadColumn("exact_match_change", "ΔEM", 100, "+.1f", "exact in %, when the head is ablated"),
    HeadColumn("f1_change", "ΔF1", 100, "+.1f", "F1 in %, when the head is ablated"),
    HeadColumn("perplexity_change", "Δppl", 1, "+.2f", "perplexity, when the head is ablated"),
    HeadColumn("moved_change", "moved", 1, ".4f", "vectors turn by 1 − cosine, when it is ablated"),
)
CLUSTER = ("cl", "cluster of heads that look alike")


def columns_of(heads: Mapping[str, Any]) -> list[HeadColumn]:
    """The columns that such a run has."""
    return [column for column in COLUMNS if column.key in heads["rows"][0]]


def cost_of(heads: Mapping[str, Any]) -> tuple[HeadColumn, list[float | None]]:
    """The loss, else the first score there is, and how much of it is lost without each head."""
    changes = [column for column in columns_of(heads) if column.key.endswith("_change")]
    known = [c for c in changes if any(row[c.key] is not None for row in heads["rows"])]
    chosen = (known or changes)[0]
    score = chosen.key.removesuffix("_change")
    sign = -1 if score in METRICS and METRICS[score].better == "higher" else 1
    values = [row[chosen.key] for row in heads["rows"]]
    return chosen, [None if one is None else sign * one for one in values]


def head_tables(heads: Mapping[str, Any]) -> list[Table]:
    """One table an attention, from the JSON of ``regard heads``, without its empty columns."""
    tables = []
    for name in dict.fromkeys(row["name"] for row in heads["rows"]):
        members = [i for i, row in enumerate(heads["rows"]) if row["name"] == name]
        told = [[heads["rows"][i][column.key] for i in members] for column in columns_of(heads)]
        known = [any(one is not None for one in values) for values in told]
        columns = list(compress(columns_of(heads), known))
        tables.append(_rounded(name, heads, members, columns, "{layer}.{head}"))
    return tables


def all_heads_table(heads: Mapping[str, Any]) -> Table:
    """All heads in one rounded table, for a paper; its caption tells what was done."""
    caption = f"{conditions(heads)} {meanings(heads)} {heads['caveat']}"
    members = range(len(heads["rows"]))
    return _rounded(caption, heads, members, columns_of(heads), "{name} {layer}.{head}")


def _rounded(
    caption: str,
    heads: Mapping[str, Any],
    members: Sequence[int],
    columns: Sequence[HeadColumn],
    named: str,
) -> Table:
    """Some heads, a row each; ``named`` says how they are called."""
    rows = []
    for i in members:
        row = heads["rows"][i]
        cells = ["–" if row[c.key] is None else c.written(row[c.key]) for c in columns]
        rows.append([named.format_map(row), *cells, str(heads["clusters"][i])])
    return Table(caption, ["head", *(column.name for column in columns), CLUSTER[0]], rows)


def plain_table(heads: Mapping[str, Any]) -> Table:
    """One row a head, one number a cell, with all its digits; what does not apply is empty."""
    header = [*heads["rows"][0], "cluster", "x", "y"]
    rows = [
        ["" if cell is None else str(cell) for cell in (*row.values(), cluster, *point)]
        for row, cluster, point in zip(heads["rows"], heads["clusters"], heads["map"], strict=True)
    ]
    return Table("", header, rows)


def heads_text(heads: Mapping[str, Any], width: int) -> str:
    """From the JSON of ``regard heads``."""
    console, text = plain_console(width)
    for table in head_tables(heads):
        console.print(f"\n{table.caption}")
        show_table(table, console)
    console.print(f"\n{conditions(heads)}\n{meanings(heads)}\n{heads['caveat']}")
    return text.getvalue()


def conditions(heads: Mapping[str, Any]) -> str:
    """What the numbers were measured on."""
    if "n_bleu" not in heads:
        keys = [column.key.removesuffix("_change") for column in columns_of(heads)]
        told = [
            f"{key.replace('_', ' ')} {heads[key]:.3f}"
            for key in keys
            if key != "moved" and heads.get(key) is not None  # vectors alone have no score
        ]
        whole = f"; whole model: {', '.join(told)}" if told else ""
        return f"{heads['n']:,} texts of {heads['split']}{whole}."
    return (
        f"{heads['n']:,} sentences of {heads['split']}, BLEU on {heads['n_bleu']:,} of them; whole "
        f"model: loss {heads['loss']:.3f}, BLEU {heads['bleu']:.1f}.{_rules(heads)}"
    )


def _rules(heads: Mapping[str, Any]) -> str:
    """What rules find that know nothing of the words: a head that finds no more found nothing."""
    told = [
        f"{column.name} {column.unit * heads[f'{column.key}_rule']:{column.format}}"
        for column in columns_of(heads)
        if heads.get(f"{column.key}_rule") is not None
    ]
    return f" Rules that are blind to the words: {', '.join(told)}." if told else ""


def meanings(heads: Mapping[str, Any]) -> str:
    """What the columns are."""
    known = [c for c in columns_of(heads) if any(row[c.key] is not None for row in heads["rows"])]
    told = [f"{column.name}: {column.meaning}" for column in known]
    return "; ".join([*told, ": ".join(CLUSTER)]) + "."


# ------------------------------------------------------------------ the map

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
    "loss_change": ("loss added", "{:+.2g} nats per token"),
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
    column, costs = cost_of(heads)
    cost, written = _COSTS.get(column.key, (f"{_plain(column)} lost", "{:.3f}"))
    largest = _largest(costs)
    most = f" (the largest: {written.format(largest)})" if largest > 0 else ""
    key = _KEY.format(cost=cost, most=most)
    lines = [*textwrap.wrap(key, room), *textwrap.wrap(heads["caveat"], room)]
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
    points, (column, costs) = [heads["map"][i] for i in members], cost_of(heads)
    middle = [(min(axis) + max(axis)) / 2 for axis in zip(*points, strict=True)]
    largest = max(_largest(costs), FULL_COST.get(column.key, 0.0)) or 1.0
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
    """A box for each name: the nearest free place beside its mark in the room, else the first."""
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
    """The marks pushed apart, inside the room, until none covers another; the others stay."""
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
