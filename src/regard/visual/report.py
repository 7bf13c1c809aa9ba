"""A report as one HTML file that needs nothing else: no network, no script, no other file.

It is given words and pictures that are ready to be shown, and knows nothing of runs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from regard.visual.style import STYLE
from regard.visual.svg import Markup, element, escaped

# The browser itself refuses whatever the page might try to load or run.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
# Digits, perhaps an exponent, perhaps a short unit; or a dash where there is no number.
_NUMBER = re.compile(r"[+\-−]?[\d.,]+(e[+\-]?\d+)?( ?[%×µA-Za-z]{1,5})?|[–—-]?")


@dataclass(frozen=True, slots=True)
class Table:
    """Columns whose cells are all numbers are set to the right."""

    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class Sample:
    """One text in, one text out, and what should have come out where that is known."""

    source: str
    output: str
    reference: str | None = None


def report_page(
    title: str,
    *,
    facts: Sequence[tuple[str, str]] = (),
    curves: Sequence[str] = (),
    tables: Sequence[Table] = (),
    samples: Sequence[Sample] = (),
    settings: str = "",
) -> str:
    """The whole page. ``curves`` are trusted SVG (from ``curves``); all else is escaped.

    ``facts`` are (name, value) and head the page; ``settings`` is text shown as it is, folded away.
    What is not given leaves no trace.
    """
    parts = [
        element("h1", title),
        _facts(facts) if facts else "",
        _curves(curves) if curves else "",
        *map(table_html, tables),
        _samples(samples) if samples else "",
        _settings(settings) if settings else "",
    ]
    return page(title, element("main", *(Markup(part) for part in parts)))


def page(title: str, body: Markup) -> str:
    """A page around a body, with our style and nothing from outside."""
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<link rel="icon" href="data:,">
{element("title", title)}
<style>{STYLE}</style>
</head>
<body>
{body}
</body>
</html>
"""


def _facts(facts: Sequence[tuple[str, str]]) -> Markup:
    pairs = (element("div", element("dt", name), element("dd", value)) for name, value in facts)
    return element("dl", *pairs, class_="facts")


def _curves(curves: Sequence[str]) -> Markup:
    figures = (element("figure", Markup(svg)) for svg in curves)
    return element("section", *figures, class_="curves")


def table_html(table: Table) -> Markup:
    """A section; the table scrolls in a box of its own, so that a phone keeps the page still."""
    columns = zip(*table.rows, strict=True)
    kinds = ["number" if all(map(_NUMBER.fullmatch, cells)) else None for cells in columns]
    kinds = kinds or [None] * len(table.header)
    head = _row("th", table.header, kinds)
    body = (_row("td", row, kinds) for row in table.rows)
    grid = element("table", element("thead", head), element("tbody", *body))
    box = element("div", grid, class_="scroll", role="region", aria_label=table.caption, tabindex=0)
    return element("section", element("h2", table.caption), box)


def _row(cell: str, texts: Sequence[str], kinds: Sequence[str | None]) -> Markup:
    scope = "col" if cell == "th" else None
    cells = zip(texts, kinds, strict=True)
    return element("tr", *(element(cell, text, scope=scope, class_=kind) for text, kind in cells))


def _samples(samples: Sequence[Sample]) -> Markup:
    entries = element("ol", *map(_sample, samples), class_="samples")
    return element("section", element("h2", "Samples"), entries)


def _sample(sample: Sample) -> Markup:
    """A reference is spelled out only where the output differs from it."""
    right = sample.reference is not None and sample.output.split() == sample.reference.split()
    mark = element("span", "✓ as the reference", class_="right") if right else ""
    # dir="auto": Arabic or Hebrew runs its own way, whatever stands beside it.
    lines = [
        element("p", sample.source, class_="source", dir="auto"),
        element("p", escaped(sample.output or "(nothing)"), mark, class_="output", dir="auto"),
    ]
    if sample.reference is not None and not right:
        label = element("span", "expected ")
        lines.append(element("p", label, sample.reference, class_="reference", dir="auto"))
    return element("li", *lines)


def _settings(settings: str) -> Markup:
    # Inside <pre>, HTML swallows a first newline; there is none after stripping.
    text = element("pre", settings.strip("\n"), tabindex=0)
    return element("section", element("details", element("summary", "Settings"), text))
