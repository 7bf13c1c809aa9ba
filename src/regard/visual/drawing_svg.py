"""The picture of a model's drawing: where blocks stand, and how lines go between them.

Columns grow from the bottom upwards. Lines between columns leave at a side and enter at a side;
between two columns each has a lane of its own to go up or down in. Everything is drawn in the ink
of the page around it, and blocks are tinted by their kind.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from textwrap import wrap

from regard.core.numbers import counted
from regard.visual.drawing import Block, Column, Drawing, Frame, Item, Link, blocks_in
from regard.visual.svg import Attributes, Markup, element, picture
from regard.visual.theme import BLOCKS

_WIDTH, _PAD, _GUTTER = 218.0, 30.0, 96.0
"""Of a block; between a block and the edge of its column, where frames and residuals have room;
between columns, where lines go up and down."""
_GAP, _LINE, _TITLE = 24.0, 15.0, 19.0
"""Between blocks, of a line of text, of a title."""
_LETTER = 6.3  # width of an average letter at the size of details; SVG text cannot be measured
_COLUMN = _WIDTH + 2 * _PAD
_CAPTION = 22.0  # of a frame, above its blocks
_PLUS = 11.0  # radius of a sum
_HEAD = 46.0  # of the title of the whole
_BESIDE = 64.0  # room at the right for lines within the last column
_FOOT = 12.0


@dataclass(frozen=True, slots=True)
class _Box:
    """Where a block stands: the middle of its width, its top and its bottom."""

    block: Block
    column: int
    x: float
    top: float
    bottom: float

    @property
    def middle(self) -> float:
        return (self.top + self.bottom) / 2

    @property
    def half(self) -> float:
        """Half of its width."""
        if self.block.kind == "text":
            return _LETTER * len(self.block.title) / 2 + 8
        return _PLUS if self.block.kind == "sum" else _WIDTH / 2

    def side(self, to_the_right: bool) -> float:
        return self.x + (self.half if to_the_right else -self.half)


def drawing_svg(drawing: Drawing) -> str:
    """The picture, with a title and a description for those who do not see it."""
    places = _Layout(drawing)
    return picture(
        element("title", drawing.heading),
        element("desc", drawing.description),
        element("text", drawing.heading, x=0, y=18, font_size=17, font_weight=600),
        *places.frames(),
        *places.arrows(),
        *places.skips(),
        *places.links(),
        *map(_block, places.boxes.values()),
        *places.loops(),
        size=(places.width, places.height),
        label=drawing.heading,
        font_size=12,
    )


class _Layout:
    """Where everything stands; y grows downwards, and columns from the bottom upwards."""

    def __init__(self, drawing: Drawing) -> None:
        self.drawing = drawing
        n = len(drawing.columns)
        self._sides, self._column = _sides(drawing), _columns_of(drawing)
        beside = _BESIDE if any(map(self._inside, drawing.links)) else 0
        self.width = max(n * _COLUMN + (n - 1) * _GUTTER + beside, len(drawing.heading) * 10.5)
        self.boxes: dict[str, _Box] = {}
        self._frames: list[tuple[Frame, int, float, float]] = []
        placed: dict[int, tuple[float, float]] = {}
        waiting = dict(enumerate(drawing.columns))
        while waiting:
            ready = [i for i, column in waiting.items() if self._needed(column) <= {*self.boxes}]
            assert ready, "columns wait for each other"
            for i in ready:
                placed[i] = self._place(i, waiting.pop(i))
        # Heights were counted from the bottom, upwards and negative: move all beneath the title.
        lowest = max(low for low, _ in placed.values())
        highest = min(high for _, high in placed.values())
        shift = _HEAD + _TITLE - highest
        self.height = lowest + shift + _FOOT
        self.boxes = {
            key: _Box(box.block, box.column, box.x, box.top + shift, box.bottom + shift)
            for key, box in self.boxes.items()
        }
        self._frames = [(f, i, top + shift, bottom + shift) for f, i, top, bottom in self._frames]
        self._titles = [(column.title, i, placed[i][1] + shift) for i, column in self._columns()]

    def _columns(self) -> Iterator[tuple[int, Column]]:
        return iter(enumerate(self.drawing.columns))

    @staticmethod
    def _needed(column: Column) -> set[str]:
        return {*column.after, *((column.beside[1],) if column.beside else ())}

    def _place(self, i: int, column: Column) -> tuple[float, float]:
        """Put a column where it belongs; its lowest and its highest point, upwards negative."""
        start = 0.0
        if column.after:
            start = min(self.boxes[key].top for key in column.after) - _GAP
        if column.beside is not None:
            own, other = column.beside
            below = self._height_below(column.items, own)
            start = min(0.0, self.boxes[other].middle + below)
        y, x = start, i * (_COLUMN + _GUTTER) + _COLUMN / 2
        for item in column.items:
            if isinstance(item, Frame):
                bottom = y
                y -= _GAP / 2
                for block in item.blocks:
                    y = self._stand(block, i, x, y) - _GAP
                y += _GAP - 4 - _CAPTION
                self._frames.append((item, i, y, bottom))
                y -= _GAP
            else:
                y = self._stand(item, i, x, y) - _GAP
        return start, y + _GAP

    def _stand(self, block: Block, i: int, x: float, bottom: float) -> float:
        top = bottom - self._height(block)
        self.boxes[block.key] = _Box(block, i, x, top, bottom)
        return top

    def _height(self, block: Block) -> float:
        """Of its text, and of the lines that enter and leave at one of its sides."""
        if block.kind == "sum":
            return 2 * _PLUS
        if block.kind == "text":
            return _TITLE
        ends = max(len(self._sides[block.key, right]) for right in (False, True))
        return max(12 + _TITLE + _LINE * len(_lines(block)), _LINE * (ends + 1))

    def _height_below(self, items: Sequence[Item], key: str) -> float:
        """From the bottom of a column to the middle of one of its blocks, none in a frame."""
        y = 0.0
        for item in items:
            assert isinstance(item, Block), "columns beside others have no frames"
            if item.key == key:
                return y + self._height(item) / 2
            y += self._height(item) + _GAP
        raise AssertionError(f"there is no block {key!r} in the column")

    def loops(self) -> Iterator[Markup]:
        """Recurrences: out of the side where fewer lines come and go, up, and in again."""
        for box in (box for box in self.boxes.values() if box.block.loop):
            left, right = (len(self._sides[box.block.key, side]) for side in (False, True))
            x, y = box.side(left > right), box.bottom - 15 if min(left, right) else box.middle
            out = 14 if left > right else -14
            yield from _arrow([(x, y + 9), (x + out, y + 9), (x + out, y - 9), (x, y - 9)])
            told = element("title", f"From step to step: {box.block.loop}")
            area = {"x": min(x, x + out), "y": y - 12, "width": 14, "height": 24}
            yield element("rect", told, **area, fill_opacity=0)

    def frames(self) -> Iterator[Markup]:
        """Titles of columns, and frames with their captions."""
        for title, i, top in self._titles:
            x = i * (_COLUMN + _GUTTER) + _COLUMN / 2
            shown: Attributes = {"text_anchor": "middle", "font_weight": 600, "font_size": 14}
            yield element("text", title, x=x, y=top - 9, **shown)
        for frame, i, top, bottom in self._frames:
            left = i * (_COLUMN + _GUTTER) + 4
            yield element(
                "rect",
                x=left,
                y=top,
                width=_COLUMN - 8,
                height=bottom - top,
                rx=10,
                fill="currentColor",
                fill_opacity=0.04,
                stroke="currentColor",
                stroke_opacity=0.45,
            )
            told = f"{frame.count:,} in all" if len(frame.numbers) > 1 else f"{frame.count:,}"
            ink: Attributes = {"y": top + 16, "font_weight": 600}
            yield element("text", frame.caption, x=left + 12, **ink)
            quiet: Attributes = {"text_anchor": "end", "fill_opacity": 0.75}
            yield element("text", told, x=left + _COLUMN - 20, y=top + 16, **quiet)

    def arrows(self) -> Iterator[Markup]:
        """Upwards, from each block of a column to the next, with the shape of what goes there."""
        for _, column in self._columns():
            if not column.chained:
                continue
            chain = [*_flow(column.items)]
            for (below, shape), (above, _) in pairwise(chain):
                low, high = self.boxes[below.key], self.boxes[above.key]
                yield from _arrow([(low.x, low.top), (low.x, high.bottom)])
                if shape:
                    edges = [y for f in self._frames if f[1] == low.column for y in f[2:]]
                    between = [y for y in edges if high.bottom < y < low.top]
                    at = (min(between, default=low.top) + max(between, default=high.bottom)) / 2
                    if len(between) == 1:  # one frame begins, or one ends
                        begins = between[0] in [f[3] for f in self._frames]
                        at = (between[0] + (low.top if begins else high.bottom)) / 2
                    at += 4
                    ink: Attributes = {"fill_opacity": 0.75, "font_size": 11}
                    yield element("text", shape, x=low.x + 9, y=at, **ink)

    def skips(self) -> Iterator[Markup]:
        """Residual connections, to the left of what they go past."""
        for skip in self.drawing.skips:
            first, end = self.boxes[skip.first], self.boxes[skip.end]
            x, y = first.x - _WIDTH / 2 - 13, first.bottom + 7
            path = [(first.x, y), (x, y), (x, end.middle), (end.side(False), end.middle)]
            yield from _arrow(path)

    def links(self) -> Iterator[Markup]:
        """Lines from side to side; those of one gutter go up and down beside each other."""
        ports, lanes = self._ports(), self._lanes()
        for n, link in enumerate(self.drawing.links):
            (x1, y1), (x2, y2) = ports[n, True], ports[n, False]
            gutters = self._gutters(link)
            path, y = [(x1, y1)], y1
            for k, gutter in enumerate(gutters):
                x = lanes[n, gutter]
                path.append((x, y))
                y = y2 if k == len(gutters) - 1 else self._between(gutters[k : k + 2], y1, y2)
                path.append((x, y))
            if self._inside(link):
                path += [(x1 + 22, y1), (x1 + 22, y2)]
            yield from _arrow([*path, (x2, y2)])
            ink: Attributes = {"font_size": 11, "fill_opacity": 0.8}
            if self._inside(link):
                yield element("text", link.label, x=x1 + 27, y=(y1 + y2) / 2 + 4, **ink)
            elif link.label:
                rightwards = x2 > path[-1][0]
                anchor, x = ("end", x2 - 17) if rightwards else ("start", x2 + 17)
                yield element("text", link.label, x=x, y=y2 - 5, text_anchor=anchor, **ink)

    def _inside(self, link: Link) -> bool:
        """Whether a line stays in one column; it goes round at the right."""
        return self._column[link.start] == self._column[link.end]

    def _lanes(self) -> dict[tuple[int, int], float]:
        """Where lines go up and down in the gutters they pass: those to the right at the left, so
        that there is room for what is written where they end.
        """
        passing: dict[int, list[int]] = defaultdict(list)
        links = self.drawing.links
        for n, link in enumerate(links):
            for gutter in self._gutters(link):
                passing[gutter].append(n)
        lanes = {}
        for gutter, those in passing.items():
            left = gutter * (_COLUMN + _GUTTER) + _COLUMN - _PAD
            room = _GUTTER + 2 * _PAD
            those.sort(key=lambda n: self._column[links[n].start] > self._column[links[n].end])
            for k, n in enumerate(those):
                lanes[n, gutter] = left + room * (k + 1) / (len(those) + 1)
        return lanes

    def _gutters(self, link: Link) -> list[int]:
        """Which gutters a line goes up or down in; one that stays in its column, in none."""
        a, b = self._column[link.start], self._column[link.end]
        return [*range(a, b)] if a < b else [*range(a - 1, b - 1, -1)]

    def _between(self, gutters: Sequence[int], y1: float, y2: float) -> float:
        """The height at which a line passes the column between two gutters: where it is free."""
        column = max(gutters)
        inside = [box for box in self.boxes.values() if box.column == column]
        low, high = max(box.bottom for box in inside), min(box.top for box in inside)
        below, above = low + 16, high - 34
        return (
            below
            if abs(below - y1) + abs(below - y2) < abs(above - y1) + abs(above - y2)
            else above
        )

    def _ports(self) -> dict[tuple[int, bool], tuple[float, float]]:
        """Where each line leaves (True) and enters: those of one side are spread over it."""
        ports = {}
        for (key, right), ends in self._sides.items():
            box, links = self.boxes[key], self.drawing.links
            others = [links[n].end if leaves else links[n].start for n, leaves in ends]
            heights = [self.boxes[other].middle for other in others]
            for k, (_, (n, leaves)) in enumerate(sorted(zip(heights, ends, strict=True))):
                y = box.top + (box.bottom - box.top) * (k + 1) / (len(ends) + 1)
                ports[n, leaves] = (box.side(right), y)
        return ports


def _columns_of(drawing: Drawing) -> dict[str, int]:
    """In which column each block stands."""
    return {b.key: i for i, one in enumerate(drawing.columns) for b in blocks_in([one])}


def _sides(drawing: Drawing) -> defaultdict[tuple[str, bool], list[tuple[int, bool]]]:
    """Which lines leave (True) or enter at the left and, True, at the right of each block."""
    columns = _columns_of(drawing)
    sides: defaultdict[tuple[str, bool], list[tuple[int, bool]]] = defaultdict(list)
    for n, link in enumerate(drawing.links):
        a, b = columns[link.start], columns[link.end]
        outwards = b >= a
        sides[link.start, outwards].append((n, True))
        sides[link.end, outwards if a == b else not outwards].append((n, False))
    return sides


def _flow(items: Sequence[Item]) -> Iterator[tuple[Block, str]]:
    """Blocks in their order, each with the shape of what leaves it."""
    for item in items:
        if isinstance(item, Block):
            yield item, item.shape
            continue
        for k, block in enumerate(item.blocks):
            yield block, item.shape if k == len(item.blocks) - 1 else block.shape


def _lines(block: Block) -> list[str]:
    """What stands under the title, broken to fit."""
    room = int((_WIDTH - 16) / _LETTER)
    lines = [line for detail in block.details for line in wrap(detail, room)]
    if block.count:
        lines.append(counted(block.count, "parameter") + (", others shared" * block.shared))
    elif block.shared:
        lines.append("shared parameters")
    else:
        lines.append("no parameters")
    return lines


def _block(box: _Box) -> Markup:
    block = box.block
    middle: Attributes = {"x": box.x, "text_anchor": "middle"}
    if block.kind == "text":
        return element("text", block.title, y=box.bottom - 5, **middle)
    if block.kind == "sum":
        ring: Attributes = {"fill": "none", "stroke": "currentColor", "stroke_opacity": 0.8}
        circle = element("circle", cx=box.x, cy=box.middle, r=_PLUS, **ring)
        return element("g", circle, element("text", "+", y=box.middle + 5, font_size=16, **middle))
    colour, parts = BLOCKS[block.kind], []
    left = box.x - _WIDTH / 2
    shape: Attributes = {"x": left, "y": box.top, "width": _WIDTH, "rx": 6}
    tint: Attributes = {"fill": colour, "fill_opacity": 0.15, "stroke": colour}
    parts.append(element("rect", height=box.bottom - box.top, stroke_width=1.4, **shape, **tint))
    y = box.top + _TITLE
    parts.append(element("text", block.title, y=y, font_size=13, font_weight=600, **middle))
    lines = _lines(block)
    for k, line in enumerate(lines, 1):
        faint = 0.75 if k == len(lines) else None
        parts.append(element("text", line, y=y + _LINE * k, fill_opacity=faint, **middle))
    return element("g", *parts)


def _arrow(path: Sequence[tuple[float, float]]) -> Iterator[Markup]:
    """A line with corners, and a head at its end."""
    (xa, ya), (xb, yb) = path[-2:]
    ink: Attributes = {"stroke": "currentColor", "stroke_opacity": 0.8, "fill": "none"}
    yield element("path", d="M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in path), **ink)
    if xa == xb:
        back = 6 if yb < ya else -6
        head = f"M{xb - 3.5:.1f} {yb + back:.1f}L{xb:.1f} {yb:.1f}L{xb + 3.5:.1f} {yb + back:.1f}Z"
    else:
        back = -6 if xb > xa else 6
        head = f"M{xb + back:.1f} {yb - 3.5:.1f}L{xb:.1f} {yb:.1f}L{xb + back:.1f} {yb + 3.5:.1f}Z"
    yield element("path", d=head, fill_opacity=0.8)
