"""What a benchmark found: one row a contender, and what the rows share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

OURS = "regard"
"""Who we are in a row; everybody else is a peer."""
LEFT_OUT = "left out"
"""How the error begins of who was not even started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One contender at one piece of work."""

    what: str
    """The work. Rows of the same work are compared, whatever their precision."""
    who: str
    how: str = ""
    """Which of its ways, where it has several: an engine, compiled, a kernel."""
    precision: str
    value: float | None = None
    """Median over the rounds; None where it failed. More is better."""
    low: float | None = None
    high: float | None = None
    """The slowest and the fastest round."""
    unit: str
    seconds: float | None = None
    """Of the work done once."""
    share: float | None = None
    """Of the device's matrix-multiply rate in the same precision, measured in this run."""
    memory_bytes: int | None = None
    """The most that it held, its weights included."""
    parameters: int | None = None
    limit: str | None = None
    """What most of its time goes to."""
    error: str | None = None
    """Why there is no value."""
    by: str | None = None
    """What the work grows with, where there is a series of it; and how much of it there is."""
    at: float | None = None

    @property
    def label(self) -> str:
        """Who and how, for a table or a picture."""
        return f"{self.who} ({self.how})" if self.how else self.who

    @property
    def kind(self) -> str:
        """The work; in a series, without how much of it there is."""
        return self.what if self.by is None else self.what.rsplit(", ", 1)[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """A whole run of a benchmark."""

    device: str
    facts: Mapping[str, Any]
    """What a reader needs to repeat it: versions, threads, shapes."""
    matrix_rates: Mapping[str, float]
    """Precision -> FLOP/s of a large product of matrices here."""
    rows: tuple[Row, ...]

    def ratio(self, row: Row) -> float | None:
        """A row's value over the best peer's at the same work."""
        peers = [one.value for one in self.rows if one.what == row.what and one.who != OURS]
        best = max((value for value in peers if value is not None), default=None)
        return None if best is None or row.value is None else row.value / best

    def as_json(self) -> dict[str, Any]:
        """All of it, as JSON."""
        return {
            "device": self.device,
            **self.facts,
            "matrix_flops_per_second": dict(self.matrix_rates),
            "rows": [{**asdict(row), "ratio": self.ratio(row)} for row in self.rows],
        }
