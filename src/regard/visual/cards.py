"""Claims with their verdicts, as cards: one in a notebook, all of them on a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from regard.visual.report import Table, page, table_html
from regard.visual.svg import Markup, element


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A claim, what was found, and what shows it."""

    name: str
    claim: str
    verdict: bool
    finding: str
    pictures: Sequence[str] = ()
    """Trusted SVG."""
    tables: Sequence[Table] = ()


def card(one: Card) -> Markup:
    """A card by itself: a section that needs no style sheet to be read."""
    word, colour = ("holds", "#00704f") if one.verdict else ("does not hold", "#B34700")
    return element(
        "section",
        element("h2", one.name),
        element("p", one.claim, class_="claim"),
        element(
            "p",
            element("strong", f"The claim {word}.", style=f"color:{colour}"),
            f" {one.finding}",
        ),
        element("div", *(element("figure", Markup(svg)) for svg in one.pictures), class_="curves"),
        *map(table_html, one.tables),
        id=one.name,
        class_="card",
    )


def cards_page(
    title: str, cards: Sequence[Card], *, missing: Sequence[tuple[str, str]] = ()
) -> str:
    """All cards on one page, an overview first; ``missing`` are (name, why) of what failed."""
    rows = [
        (
            element("a", one.name, href=f"#{one.name}"),
            one.claim,
            "holds" if one.verdict else "does not hold",
        )
        for one in cards
    ]
    overview = table_html(Table("Claims", ["Experiment", "Claim", "Verdict"], rows))
    failed = [element("p", f"{name} could not be run: {why}") for name, why in missing]
    return page(title, element("main", element("h1", title), *failed, overview, *map(card, cards)))
