"""Pages that need nothing else, no network, no script, no other file: reports, and claims as cards.

They are given words and pictures that are ready to be shown, and know nothing of runs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from regard.visual.svg import Markup, element, escaped
from regard.visual.tables import Table, table_html
from regard.visual.theme import BAD, GOOD, NEUTRAL, page_css

# The browser itself refuses whatever the page might try to load or run.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


@dataclass(frozen=True, slots=True)
class Sample:
    """One text in, one text out, and what should have come out where that is known."""

    source: str
    output: str
    reference: str | None = None


@dataclass(frozen=True, slots=True)
class Looked:
    """A picture of where a run looked while it read or wrote something."""

    caption: str
    picture: str  # trusted SVG


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A claim, why it matters, what was found, what shows it, and what to try."""

    name: str
    claim: str
    why: str
    verdict: bool
    finding: str
    command: str  # a command line
    expect: str  # what is seen then
    stem: str  # of the file with its page, and its place on a page of many
    changed: str = ""  # settings that are not those of the claim
    pictures: Sequence[str] = ()  # trusted SVG
    tables: Sequence[Table] = ()


def report_page(
    title: str,
    *,
    facts: Sequence[tuple[str, str]] = (),
    curves: Sequence[str] = (),
    tables: Sequence[Table] = (),
    samples: Sequence[Sample] = (),
    looks: Sequence[Looked] = (),
    drawing: str = "",
    settings: str = "",
    kind: str = "Report of a run",
) -> str:
    """The whole page. ``curves`` and the ``drawing`` of the model are trusted SVG; all else is
    escaped.

    ``kind`` stands beside the project's name. ``facts`` are (name, value) and head the page;
    ``settings`` is text shown as it is, folded away. What is not given leaves no trace.
    """
    parts = [element("h1", title)]
    if facts:
        pairs = (element("div", element("dt", name), element("dd", value)) for name, value in facts)
        parts.append(element("dl", *pairs, class_="facts"))
    if curves:
        parts.append(element("section", *map(_figure, curves), class_="curves"))
    if looks:
        heading = element("h2", "Where it looks")
        parts.append(element("section", heading, *map(_looked, looks)))
    parts.extend(map(table_html, tables))
    if samples:
        entries = element("ol", *map(_sample, samples), class_="samples")
        parts.append(element("section", element("h2", "Samples"), entries))
    if drawing:
        scroll = element("div", Markup(drawing), class_="scroll", tabindex=0)
        parts.append(element("section", element("h2", "The model"), scroll))
    if settings:
        # Inside <pre>, HTML swallows a first newline; there is none after stripping.
        text = element("pre", settings.strip("\n"), tabindex=0)
        folded = element("details", element("summary", "Settings"), text)
        parts.append(element("section", folded))
    return page(title, element("main", *parts), kind=kind)


def page(title: str, body: str, *, kind: str, policy: str = _POLICY, style: str = "") -> str:
    """A page around a trusted body, with our style and nothing from outside.

    ``kind`` says, beside the name of the program, what sort of page it is.
    """
    brand = element("header", element("b", "Regard"), element("small", kind), class_="brand")
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<link rel="icon" href="data:,">
{element("title", title)}
<style>{page_css()}{style}</style>
</head>
<body>
{brand}
{body}
</body>
</html>
"""


def card(one: Card) -> Markup:
    """A card by itself: a section that needs no style sheet to be read."""
    verdict = _verdict(one, f"The claim {verdict_word(one.verdict)}.")
    tried = (element("code", one.command), element("span", one.expect))
    return element(
        "section",
        element("h3", one.name),
        element("p", one.claim, class_="claim"),
        element("p", element("b", "Why it matters"), f" {one.why}", class_="why"),
        element("div", *map(_figure, one.pictures), class_="curves"),
        element("p", *verdict, f" {one.finding}", class_="finding"),
        *map(table_html, one.tables),
        element("p", element("b", "Try it"), " ", *tried, class_="try"),
        id=one.stem,
        class_="card",
    )


def verdict_word(verdict: bool) -> str:
    """What a verdict is called everywhere."""
    return "holds" if verdict else "does not hold"


def badge(verdict: bool | None, words: str) -> Markup:
    """A verdict on a ground of its own, which is read on light and dark pages alike.

    None is no verdict: the ground is grey.
    """
    ground = {True: GOOD, False: BAD, None: NEUTRAL}[verdict]
    style = f"padding:.1em .6em;border-radius:1em;background:{ground};color:#fff"
    return element("strong", words, class_="verdict", style=style)


class Elsewhere(NamedTuple):
    """A claim whose card is on a page of its own, beside this one."""

    name: str
    claim: str
    verdict: bool
    stem: str
    changed: str = ""


def cards_page(
    title: str,
    cards: Sequence[Card],
    *,
    missing: Sequence[tuple[str, str]] = (),
    elsewhere: Sequence[Elsewhere] = (),
    themes: Mapping[str, Collection[str]] | None = None,
) -> str:
    """All cards on one page, contents first; ``missing`` are (name, why) of what failed.

    The contents lead to those that lie ``elsewhere``, each on the page STEM.html. ``themes`` are
    (heading -> names) in the order of the page; without them the cards stand as they are given.
    What was measured with changed settings stands below its claim, and is not counted.
    """
    shown = {one.stem: one for one in cards}
    known: dict[str, Card | Elsewhere] = {**{one.stem: one for one in elsewhere}, **shown}
    ordered = sorted(known.values(), key=lambda one: one.changed)
    by_theme = {
        theme: [one for name in names for one in ordered if one.name == name]
        for theme, names in (themes or {title: dict.fromkeys(one.name for one in ordered)}).items()
    }
    contents, parts = [], []
    for theme, some in by_theme.items():
        if some:
            lines = element("ul", *(_line(one, one.stem in shown) for one in some))
            contents.append(element("div", element("h2", theme), lines))
        here = [card(shown[one.stem]) for one in some if one.stem in shown]
        if here:
            parts += [element("h2", theme, class_="theme") if themes else "", *here]
    told = element("p", _counted(known.values()), class_="caption")
    failed = [element("p", f"{name} could not be run: {why}") for name, why in missing]
    nav = element("nav", *contents, class_="contents", aria_label="Contents")
    return page(
        title, element("main", element("h1", title), told, *failed, nav, *parts), kind="Lab"
    )


def _line(one: Card | Elsewhere, here: bool) -> Markup:
    """A line of the contents: the name leads to the card, on this page or on its own."""
    link = element("a", one.name, href=f"#{one.stem}" if here else f"{one.stem}.html")
    verdict = _verdict(one, verdict_word(one.verdict))
    return element("li", link, " ", *verdict, " ", element("span", one.claim))


def _verdict(one: Card | Elsewhere, words: str) -> Sequence[str]:
    """The verdict as a badge; with changed settings these are the badge, and no verdict is one."""
    if not one.changed:
        return [badge(one.verdict, words)]
    so = f" So changed, it {verdict_word(one.verdict)}."
    return [badge(None, f"changed: {one.changed}"), so]


def _counted(known: Collection[Card | Elsewhere]) -> str:
    """How many claims hold; what was measured with changed settings is told apart."""
    claims = [one.verdict for one in known if not one.changed]
    n_changed = len(known) - len(claims)
    told = [f"{sum(claims)} of {len(claims)} claims hold."] if claims or not n_changed else []
    if n_changed:
        told.append(f"Not counted: {n_changed} with changed settings.")
    return " ".join(told)


def _figure(svg: str) -> Markup:
    return element("figure", Markup(svg))


def _looked(one: Looked) -> Markup:
    scroll = element("div", Markup(one.picture), class_="scroll", tabindex=0)
    return element("figure", element("figcaption", one.caption, class_="caption"), scroll)


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
