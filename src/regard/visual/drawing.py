"""A model as a drawing: blocks in columns, read from the bottom upwards, with shapes and counts.

Columns stand side by side (an encoder, what looks, a decoder); in each, what flows goes from block
to block upwards, as in the figure of the Transformer. A frame is drawn once for layers that are
alike. All this is plain data, and nothing here knows a model. ``drawing_text`` makes a tree of it
for a terminal; ``visual/drawing_svg.py`` the picture.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One part of a model."""

    key: str
    """Its name in the drawing, which lines refer to."""
    title: str
    kind: str = "other"
    """One of ``theme.BLOCKS``, which is its colour; or ``text`` (what goes in and what comes out,
    without a box), or ``sum`` (a plus in a circle)."""
    details: tuple[str, ...] = ()
    """Shapes and settings, a line each."""
    count: int = 0
    """Parameters of its own."""
    shared: bool = False
    """Whether it uses parameters that are another block's, and counted there."""
    loop: str = ""
    """What it hands from step to step, where it is recurrent."""
    shape: str = ""
    """What leaves it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """Layers that are alike, drawn once."""

    numbers: tuple[int, ...]
    """Which layers these are, counted from 0 as everywhere."""
    blocks: tuple[Block, ...]
    of: str = "layer"
    shape: str = ""

    @property
    def count(self) -> int:
        """Parameters of all of them."""
        return len(self.numbers) * sum(block.count for block in self.blocks)

    @property
    def caption(self) -> str:
        """How often, and which.

        >>> Frame(numbers=(0, 1, 2), blocks=()).caption, Frame(numbers=(1, 3), blocks=()).caption
        ('3 × layers 0–2', '2 × layers 1, 3')
        """
        n, first, last = len(self.numbers), self.numbers[0], self.numbers[-1]
        if n == 1:
            return f"{self.of} {first}"
        run = last - first == n - 1
        which = f"{first}–{last}" if run else ", ".join(map(str, self.numbers))
        return f"{n} × {self.of}s {which}"


Item = Block | Frame


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """Blocks from the bottom upwards."""

    title: str
    items: tuple[Item, ...]
    chained: bool = True
    """Whether each item gives what it makes to the next."""
    beside: tuple[str, str] | None = None
    """A block of this column, and one of another that it stands at the height of."""
    after: tuple[str, ...] = ()
    """Blocks of other columns that this column begins above."""

    @property
    def count(self) -> int:
        """Parameters of all its blocks."""
        return sum(item.count for item in self.items)


@dataclass(frozen=True, slots=True)
class Link:
    """A line between two blocks that do not follow each other in a column."""

    start: str
    end: str
    label: str = ""


@dataclass(frozen=True, slots=True)
class Skip:
    """A residual connection: past the blocks from ``first`` on, into ``end``."""

    first: str
    end: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """A whole model."""

    title: str
    columns: tuple[Column, ...]
    links: tuple[Link, ...] = ()
    skips: tuple[Skip, ...] = ()

    @property
    def count(self) -> int:
        """Parameters of all blocks, tied ones once."""
        return sum(column.count for column in self.columns)

    @property
    def heading(self) -> str:
        """Its name and its size."""
        return f"{self.title}: {self.count:,} parameters"

    @property
    def description(self) -> str:
        """What the picture shows, in sentences."""
        told = []
        for column in self.columns:
            order = ", then " if column.chained else ", "
            told.append(f"{column.title}: {order.join(map(_said, column.items))}.")
        names = {block.key: block.title for block in blocks_in(self.columns)}
        lines = [f"{names[one.start]} to {names[one.end]}" for one in self.links]
        across = f" Lines from {'; '.join(lines)}." if lines else ""
        return f"From the bottom upwards. {' '.join(told)}{across}"


def _said(item: Item) -> str:
    if isinstance(item, Frame):
        return f"{item.caption} ({', '.join(_said(block) for block in item.blocks)})"
    return "sum with what went in" if item.kind == "sum" else item.title


def blocks_in(columns: Sequence[Column]) -> Iterator[Block]:
    """All blocks of some columns, those in frames too."""
    for column in columns:
        for item in column.items:
            yield from item.blocks if isinstance(item, Frame) else (item,)


# ------------------------------------------------------------------ as text


def drawing_text(drawing: Drawing) -> str:
    """A tree of its blocks, what is read first at the top, with shapes and counts."""
    rows: list[tuple[str, int | None]] = [(drawing.title, drawing.count)]
    for i, column in enumerate(drawing.columns):
        last = i == len(drawing.columns) - 1
        rows.append((("└─ " if last else "├─ ") + column.title, column.count))
        rows.extend(_branches(column.items, "   " if last else "│  "))
    widest = max(len(text) for text, _ in rows)
    right = max(len(f"{count:,}") for _, count in rows if count is not None)
    lines = [
        text if count is None else f"{text:<{widest}}  {f'{count:,}':>{right}}"
        for text, count in rows
    ]
    return "\n".join(lines)


def _branches(items: Sequence[Item], indent: str) -> Iterator[tuple[str, int | None]]:
    shown = [item for item in items if isinstance(item, Frame) or item.kind not in ("sum", "text")]
    for i, item in enumerate(shown):
        last = i == len(shown) - 1
        branch = indent + ("└─ " if last else "├─ ")
        if isinstance(item, Frame):
            yield branch + item.caption, item.count
            yield from _branches(item.blocks, indent + ("   " if last else "│  "))
        else:
            yield branch + "; ".join((item.title, *item.details)), item.count
