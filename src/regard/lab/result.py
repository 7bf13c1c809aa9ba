"""What an experiment found out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from regard.lab import claim
from regard.visual.report import Card, card
from regard.visual.tables import Table

Number = bool | int | float | str | list[float] | list[int]


@dataclass(frozen=True, slots=True)
class Result:
    """A verdict on a claim, with the numbers it rests on and a picture of them."""

    name: str
    verdict: bool
    """Whether the claim held here; it can come out false."""
    finding: str
    """A sentence or two: what was seen, with the deciding numbers, and why where it was not so."""
    numbers: Mapping[str, Number]
    """All that was measured, by readable names; plain JSON."""
    pictures: tuple[str, ...]
    """SVG."""
    tables: tuple[Table, ...] = ()

    @property
    def claim(self) -> str:
        """What was put to the test."""
        return claim(self.name)

    def as_json(self) -> dict[str, Any]:
        """What ``regard lab NAME --json`` prints."""
        return {
            "name": self.name,
            "claim": self.claim,
            "verdict": self.verdict,
            "finding": self.finding,
            "numbers": dict(self.numbers),
        }

    def card(self) -> Card:
        """The result, ready to be put on a page."""
        return Card(
            name=self.name,
            claim=self.claim,
            verdict=self.verdict,
            finding=self.finding,
            pictures=self.pictures,
            tables=self.tables,
        )

    def _repr_html_(self) -> str:
        return card(self.card())
