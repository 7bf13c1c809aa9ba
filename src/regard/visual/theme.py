"""How everything we draw looks: colours, colour scales, numbers and fonts, in one place.

Terminal, SVG pictures, reports and the page of ``regard serve`` have them from here: the drawing
module in the browser imports ``theme.js``, which is ``theme_js()``, and pages have the variables of
``theme_css()``. To change a colour or a scale, edit this file.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files

# Okabe & Ito (2008), told apart by colour-blind readers. Their yellow and black are left out: one
# fades on white, the other on black.
# Lines, heads and clusters have these colours on light pages and on paper.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
DARK_PALETTE = ("#3f9edb", "#ff8a3d", "#2fc79a", "#e59cc4", "#f2b632", "#8fd0f5")
"""The same colours, brighter: lines and marks in the browser on a dark page."""
DASHES = (None, "7 3", "2 3")  # tell apart what lies beyond the palette
ON_DARK = {"#0072B2": "#3f9edb"}  # the one colour of charts that is dim on a dark page: there

INK = PALETTE[0]  # of weights: its opacity is the weight, which works on light and dark
ON_INK = "#ffffff"  # what is written where the ink is strong
GOOD, BAD = "#00704f", "#B34700"  # claims that hold, claims that do not
NEUTRAL = "#5b5f67"  # what was measured with changed settings: no verdict on a claim
FINISHED = PALETTE[2]  # hypotheses that came to their end
# From weight 0 to 1 in a terminal, whose cells have a ground of their own: cividis.
WEIGHTS = ((0, 32, 76), (58, 79, 110), (124, 123, 120), (188, 172, 108), (255, 233, 69))
# Parts of a model in its drawing, tinted with these on light and on dark.
BLOCKS = {
    "embedding": PALETTE[3],
    "attention": PALETTE[4],
    "feed_forward": PALETTE[5],
    "recurrent": PALETTE[2],
    "convolution": PALETTE[0],
    "norm": "#8a8d94",
    "output": PALETTE[1],
    "other": "#8a8d94",
}
OVERVIEW_POWER = 0.5  # small pictures of heads show this power of a weight, so that weak ones show

FULL_COST = {"loss_change": 0.01}
"""The least cost that has the largest mark in a map of heads: noise is not to look large."""
UNLIT = 0.22  # how bright a picture is where nobody looks

# The fonts are those of the reader's system, a book face for words and the interface's own for the
# rest: nothing is loaded, and nothing flashes. docs/ARCHITECTURE.md says why none are bundled.
FONT = "system-ui, -apple-system, 'Segoe UI', sans-serif"  # of pictures
_FONTS = {
    "serif": '"Iowan Old Style", "Palatino Linotype", Palatino, "Source Serif 4", Charter, '
    '"Bitstream Charter", "Book Antiqua", Georgia, "Noto Serif", serif',
    "sans": 'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "Helvetica Neue", '
    "sans-serif",
    "mono": 'ui-monospace, "SF Mono", Menlo, Consolas, "Liberation Mono", monospace',
}
_COLOURS = {
    "paper": ("#fcfbf8", "#16181c"),
    "card": ("#f4f2ec", "#1e2126"),
    "ink": ("#1f2126", "#e6e4de"),
    "muted": ("#666a73", "#9da1aa"),
    "line": ("#e3e0d7", "#2f3339"),
    "edge": ("#8a8d94", "#6d717a"),
    "accent": ("#00639c", "#6cbcec"),
    "on-accent": ("#ffffff", "#10202b"),
    "mark": ("#ffe3c2", "#5a3a12"),
    "good": (GOOD, "#4fc3a0"),
    "role-x": ("#4a4e57", "#c3c6cd"),  # of formulas and figures of the page's story
    "role-p": ("#7d5300", "#e2b25a"),
    "role-q": ("#00639c", "#6cbcec"),
    "role-k": ("#a33a00", "#ff9d66"),
    "role-v": ("#00704f", "#4fc3a0"),
    "role-w": ("#74379b", "#cfa6ec"),
    "role-below": ("#6f737b", "#8f939b"),
    "bad": ("#a33a00", "#ff9d66"),
}
"""Of pages, light and dark; in CSS ``--paper`` and so on."""
_DRAWN = {
    "paper": ("#ffffff", "#16181c"),
    "ink": (INK, PALETTE[5]),
    "above": (PALETTE[0], PALETTE[5]),
    "below": (PALETTE[1], PALETTE[4]),
    "good": (FINISHED, "#2fc79a"),
    # In a cell: on any colour black or white has a contrast of 4.5; softer inks may have less.
    "number": ("#000000", "#ffffff"),  # weak or
    "reversed": ("#ffffff", "#000000"),  # strong
}
"""Of what is drawn in the browser, likewise; numbers of vectors are ``above`` or ``below`` 0."""
START = {"view": "lines", "threshold": 0.1}
"""What is drawn first, on the page and in a single file: which view, and from which weight on."""
# Of numbers that are read out; told when pointed at; of weights and vectors, small and large; of a
# beam; in per cent.
DIGITS = {"exact": 6, "told": 3, "vector": 3, "large": 1, "score": 2, "share": 1}


def colour_of(i: int) -> tuple[str, str | None]:
    """Colour and dashes of the i-th of several things."""
    return PALETTE[i % len(PALETTE)], DASHES[i // len(PALETTE) % len(DASHES)]


def weight_rgb(weight: float) -> tuple[int, int, int]:
    """A weight from 0 to 1 on the scale ``WEIGHTS``; what lies outside takes its end."""
    place = min(1.0, max(0.0, weight)) * (len(WEIGHTS) - 1)
    low = min(int(place), len(WEIGHTS) - 2)
    red, green, blue = (
        round(a + (b - a) * (place - low))
        for a, b in zip(WEIGHTS[low], WEIGHTS[low + 1], strict=True)
    )
    return red, green, blue


def weight_opacity(weight: float) -> str:
    """How strong the ink of a cell is."""
    return f"{min(1.0, max(0.0, weight)):.3f}"


def number(value: float | None, kind: str = "vector") -> str:
    """A number as tables have it, with the ``DIGITS`` of its kind; a dash where there is none."""
    return "–" if value is None else f"{value:.{DIGITS[kind]}f}"


def exact(value: float) -> str:
    """A number as one reads it out: all digits of a whole one, six of another.

    >>> exact(1234567.0), exact(0.123456789)
    ('1,234,567', '0.123457')
    """
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.{DIGITS['exact']}g}"


def probability(share: float) -> str:
    """A probability in per cent, as the page writes it: a softmax never gives 0 or 1, so that
    neither is written where digits end before.

    >>> probability(0.5), probability(0.99999), probability(1.0), probability(1e-9)
    ('50.0 %', '> 99.9 %', '> 99.9 %', '< 0.1 %')
    """
    text, least = number(100 * share, "share"), 10.0 ** -DIGITS["share"]
    if float(text) == 0:
        return f"< {least:g} %"
    return f"> {100 - least:g} %" if float(text) >= 100 else f"{text} %"


def theme_js() -> str:
    """``theme.js``: the same values for the module that draws in the browser."""
    values = {
        "font": FONT,
        "palette": PALETTE,
        "dashes": [dash or "" for dash in DASHES],
        "overviewPower": OVERVIEW_POWER,
        "unlit": UNLIT,
        "fullCost": FULL_COST,
        "digits": DIGITS,
        "start": START,
        "inks": dict(zip(("light", "dark"), _COLOURS["ink"], strict=True)),
        "light": {name: light for name, (light, _) in _DRAWN.items()} | {"palette": PALETTE},
        "dark": {name: dark for name, (_, dark) in _DRAWN.items()} | {"palette": DARK_PALETTE},
    }
    return f"export const THEME = {json.dumps(values, ensure_ascii=False)};\n"


def ink_and_paper(*, fixed: bool = False) -> str:
    """Style of a picture that stands alone: light, or unless ``fixed`` dark as one likes."""
    rules = (
        f"svg {{ color: {_COLOURS['ink'][i]}; background: {_DRAWN['paper'][i]}; }}" for i in (0, 1)
    )
    light, dark = rules
    return light if fixed else f"{light} @media (prefers-color-scheme: dark) {{ {dark} }}"


def theme_css() -> str:
    """``theme.css``: colours and fonts as variables, light or dark as the reader likes.

    The rules of ``base.css`` follow, which every page shares.
    """
    light = "".join(f" --{name}: {pair[0]};" for name, pair in _COLOURS.items())
    dark = "".join(f" --{name}: {pair[1]};" for name, pair in _COLOURS.items())
    fonts = "".join(f" --{name}: {value};" for name, value in _FONTS.items())
    dim = "".join(
        f'\n  .curves [{what}="{bright}"] {{ {what}: {dimmed}; }}'
        for bright, dimmed in ON_DARK.items()
        for what in ("stroke", "fill")
    )
    return (
        f":root {{ color-scheme: light dark;{light}{fonts} }}\n"
        f"@media (prefers-color-scheme: dark) {{\n  :root {{{dark} }}{dim}\n}}\n"
        f"{_static('base.css')}"
    )


@cache
def page_css() -> str:
    """The whole style sheet of a page that stands alone: the variables, then ``report.css``."""
    return theme_css() + _static("report.css")


@cache
def _static(name: str) -> str:
    return (files("regard.visual") / "static" / name).read_text(encoding="utf-8")
