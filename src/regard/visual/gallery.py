"""A gallery of captions: the best and the worst, each with where the model looked for its words.

It is given plain data and knows no model. The page needs nothing else: no network, no script.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.visual.heat_maps import Pixels, data_uri, strip
from regard.visual.report import page
from regard.visual.svg import Markup, element, escaped
from regard.visual.theme import number

COLUMNS, ALONE = 6, 264
"""Pictures in a row of a strip; pixels of one that nothing is laid over."""
STYLE = """
.gallery { display: grid; gap: 2.2rem; }
.gallery article { border-top: 1px solid var(--line); padding-top: 1rem; }
.gallery h3 { margin: 0; font: 600 1.15rem/1.4 var(--serif); overflow-wrap: anywhere; }
.gallery .score { margin: .1rem 0 .8rem; color: var(--muted); font-size: .88rem; }
.gallery svg, .gallery img { display: block; max-width: 100%; height: auto; }
.gallery ul { margin: .8rem 0 0; padding-inline-start: 1.2rem; font-size: .92rem; }
.gallery li { overflow-wrap: anywhere; }
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class GalleryItem:
    """A picture, what was said of it, and where the model looked meanwhile."""

    pixels: Pixels
    caption: str
    references: Sequence[str]
    score: float
    words: Sequence[str] = ()
    """What was written, piece by piece; empty where the model looks nowhere."""
    maps: Sequence[Any] = ()
    """(R, C) for each of the words."""
    gates: Sequence[float] | None = None
    """The β of each of the words."""


def best_and_worst(scores: Sequence[float], n: int) -> tuple[list[int], list[int]]:
    """Numbers of the ``n`` highest scores, and of the ``n`` lowest; none is in both.

    >>> best_and_worst([0.5, 0.9, 0.1, 0.7, 0.3], 2)
    ([1, 3], [2, 4])
    >>> best_and_worst([0.5, 0.9, 0.1], 2)
    ([1, 0], [2])
    """
    order = np.argsort(-np.asarray(scores, np.float64), kind="stable").tolist()
    best = order[:n]
    return best, order[len(best) :][::-1][:n]


def gallery_page(
    title: str,
    *,
    best: Sequence[GalleryItem],
    worst: Sequence[GalleryItem],
    score: str,
    about: str = "",
    smooth: bool = True,
) -> str:
    """The whole page; ``score`` is what the captions were ordered by, ``about`` stands above."""
    parts = [element("h1", title), *([element("p", about)] if about else [])]
    for heading, items in (("The best", best), ("The worst", worst)):
        if items:
            articles = [_article(one, score, smooth) for one in items]
            gallery = element("div", *articles, class_="gallery")
            parts.append(element("section", element("h2", heading), gallery))
    return page(title, element("main", *parts), kind="Gallery", style=STYLE)


def _article(item: GalleryItem, score: str, smooth: bool) -> Markup:
    # dir="auto": Arabic or Hebrew runs its own way, whatever stands beside it.
    references = [element("li", one, dir="auto") for one in item.references]
    return element(
        "article",
        element("h3", escaped(item.caption or "(nothing)"), dir="auto"),
        element("p", f"{score} {number(item.score)}", class_="score"),
        _looked(item, smooth),
        element("ul", *references, aria_label="What people said") if references else Markup(""),
    )


def _looked(item: GalleryItem, smooth: bool) -> Markup:
    """The strip, or the picture alone where the model looks nowhere."""
    if not len(item.maps):
        return element(
            "img",
            src=data_uri(item.pixels),
            alt="The picture",
            width=ALONE,
            style="image-rendering: pixelated",
        )
    how: dict[str, Any] = {"gates": item.gates, "smooth": smooth, "columns": COLUMNS}
    return Markup(strip(item.pixels, item.words, item.maps, title="Where it looked", **how))
