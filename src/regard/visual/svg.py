"""Building SVG and HTML as text, with everything escaped that is not markup by birth.

Only ``element`` makes ``Markup``; any other string put inside one is taken for plain text. So a
token named ``<script>`` can appear in a picture, but never run in it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from html import escape as _escape

from regard.visual.theme import FONT, ink_and_paper

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_BOX = re.compile(r'viewBox="0 0 ([\d.]+) ([\d.]+)"')
_WIDTH = re.compile(r'(^<svg [^>]*?) width="[\d.]+"')
_LABEL = re.compile(r'aria-label="([^"]*)"')
_GAP = 24  # between pictures that are stacked
Attributes = dict[str, str | float | None]


class Markup(str):
    """Text that is markup already and is not escaped again."""

    __slots__ = ()


def element(name: str, *children: str, **attributes: str | float | None) -> Markup:
    """One element. ``_`` in an attribute's name becomes ``-``, one at its end is dropped.

    Attributes that are None are left out; numbers are rounded to hundredths, a thousandth of a
    pixel being nobody's concern and half of a file's size.

    >>> element("text", "a < b", class_="label", stroke_width=1 / 3)
    '<text class="label" stroke-width="0.33">a &lt; b</text>'
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="'
        f'{escaped(value) if isinstance(value, str) else f"{round(value, 2):.10g}"}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{written}>{''.join(map(escaped, children))}</{name}>")


def picture(
    *children: str, label: str, size: tuple[float, float], fixed: bool = True, font_size: int = 13
) -> Markup:
    """A whole SVG of this width and height; unless ``fixed`` it takes what room the page gives it.

    Text and axes are drawn in ``currentColor``: the ink of the page around it, light or dark.
    """
    width, height = (f"{one:.0f}" for one in size)
    return element(
        "svg",
        *children,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width} {height}",
        width=width if fixed else None,
        role="img",
        aria_label=label,
        fill="currentColor",
        font_family=FONT,
        font_size=font_size,
    )


def stack(pictures: Sequence[str], *, label: str, columns: int = 1) -> str:
    """One SVG of trusted SVGs (from ``bars``, ``curves``, …), each in its own size.

    They stand one below the other, or in rows of ``columns``.
    """
    parts, y, widest = [], 0.0, 1.0
    for start in range(0, len(pictures), columns):
        x = tallest = 0.0
        for one in pictures[start : start + columns]:
            found = _BOX.search(one)
            assert found is not None, "a picture of ours begins with its viewBox"
            width, height = float(found[1]), float(found[2])
            placed = f'<svg height="{height:g}" x="{x:g}" y="{y:g}" width="{width:g}" '
            # Its own width would be a second one.
            parts.append(Markup(_WIDTH.sub(r"\1", one, 1).replace("<svg ", placed, 1)))
            x, tallest = x + width + _GAP, max(tallest, height)
        y, widest = y + tallest + _GAP, max(widest, x - _GAP)
    size = (widest, max(1.0, y - _GAP))
    return picture(element("g", *parts), size=size, fixed=False, label=label)


def alone(svg: str, *, fixed: bool = False) -> str:
    """A picture of ours as a file: with ink and paper of its own, light or dark.

    A ``fixed`` one is light for every reader: on a white slide it must not turn black.
    Programs that know no style sheets draw it in black on white or on nothing. Where it has no
    title yet, its label becomes one.
    """
    head, close, rest = svg.partition(">")
    label = _LABEL.search(head)
    title = Markup("") if "<title>" in rest[:8] or label is None else f"<title>{label[1]}</title>"
    styled = element("style", Markup(ink_and_paper(fixed=fixed)))
    return f"{head}{close}{title}{styled}{rest}"


def escaped(text: str) -> Markup:
    """Text made safe inside an element or an attribute; markup is returned as it is.

    Characters that XML forbids even when escaped (a byte-level tokenizer can utter them) become �.
    """
    return text if isinstance(text, Markup) else Markup(_escape(_NOT_XML.sub("\ufffd", text)))


def printable(text: str) -> str:
    r"""Text made safe for a terminal: no token can steer it. Spaces of any width stay.

    >>> printable("a\x1b[2Jb")
    'a�[2Jb'
    """
    return "".join(
        letter if letter.isprintable() or unicodedata.category(letter) == "Zs" else "\ufffd"
        for letter in text
    )
