"""What becomes of a lecture's claims about its table, by the rows that were trained here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from regard.evaluation.metrics import METRICS, Metric
from regard.runs.comparison import flops_text
from regard.runs.lecture_tables import LectureTable, TableClaim
from regard.runs.table_results import RowResult, Significance, Verdict

SIGNIFICANCE_LEVEL = 0.05
"""Differences with this p, as it is printed, or a larger one may be luck of the test examples."""
DIGITS = 3
"""To which p is rounded."""


def verdicts(
    table: LectureTable, rows: Sequence[RowResult], significance: Significance | None = None
) -> list[Verdict]:
    """What becomes of the lecture's claims with these rows.

    Where p is known, findings say it, and nothing is concluded from a difference that may be luck
    of the test examples. Whether another seed would say the same is another question.
    """
    done = {row.row: row for row in rows if row.error is None}
    judge = _Judge(table, done, METRICS[table.metrics[0]], significance)
    judges = {
        "better": judge.better,
        "longer": judge.longer,
        "cheaper": judge.cheaper,
        "ensembles": judge.ensembles,
    }
    titles, found = {row.row: row.title for row in rows}, []
    for claim in table.claims:
        missing = [titles.get(key, key) for key in claim.needed if key not in done]
        if missing:
            finding = f"{' and '.join(missing)} could not be trained"
            found.append(Verdict(claim=claim.text, verdict=None, finding=finding))
        else:
            found.append(judges[claim.kind](claim))
    return found


@dataclass(frozen=True, slots=True)
class _Judge:
    """Decides on claims by the rows that did not fail."""

    table: LectureTable
    rows: Mapping[str, RowResult]
    metric: Metric
    significance: Significance | None

    def better(self, claim: TableClaim) -> Verdict:
        one, other = claim.rows
        return Verdict(
            claim=claim.text,
            verdict=self._verdict(one, other),
            finding=self._beside(one, other),
            numbers={key: self._score(key) for key in claim.rows},
        )

    def longer(self, claim: TableClaim) -> Verdict:
        """As ``better``, unless the first has read no more: then it is better by something else."""
        found, (one, other) = self.better(claim), (self.rows[key] for key in claim.rows)
        if other.cut == 0:
            why = "no test document is longer than the "
            why += f"{other.reads:,} tokens that {other.title} reads here"
        elif one.reads is not None and other.reads is not None and one.reads <= other.reads:
            why = f"{one.title} reads {one.reads:,} tokens here and {other.title} {other.reads:,}"
        else:
            return found
        told = f"{why}, so nothing more was read. {found.finding}"
        return replace(found, verdict=None, finding=told)

    def cheaper(self, claim: TableClaim) -> Verdict:
        """FLOPs until the first row's validations are as good as the best other's ever were."""
        name, cost = self.metric.name, self.metric.cost
        ours = self.rows[claim.rows[0]]
        others = [
            row for row in self.rows.values() if row.kind == "single" and row.row not in claim.rows
        ]
        other = min(others, key=lambda row: cost(row.scores[name])) if others else None
        if other is None or not other.curve or not ours.curve:
            finding = "there is nothing to compare with"
            return Verdict(claim=claim.text, verdict=None, finding=finding)
        target = min(cost(at[name]) for at in other.curve)
        needed = next((at["flops"] for at in ours.curve if cost(at[name]) <= target), None)
        spent = min(other.curve, key=lambda at: cost(at[name]))["flops"]
        told = "never" if needed is None else f"after {flops_text(needed)} FLOPs"
        return Verdict(
            claim=claim.text,
            verdict=needed is not None and needed < spent,
            finding=f"{ours.title} reaches the {self.metric.title} on valid of {other.title}, the "
            f"best other system, {told}; that one reached it after {flops_text(spent)}",
            numbers={"other_flops": spent, **({} if needed is None else {"flops": needed})},
        )

    def ensembles(self, claim: TableClaim) -> Verdict:
        """Each beside the row whose runs it averages."""
        pairs = [
            (row.key, row.ensemble_of)
            for row in self.table.rows
            if row.ensemble_of is not None and {row.key, row.ensemble_of} <= self.rows.keys()
        ]
        if not pairs:
            return Verdict(claim=claim.text, verdict=None, finding="no ensemble could be made")
        each = [self._verdict(*pair) for pair in pairs]
        undecided = None if None in each else True
        return Verdict(
            claim=claim.text,
            verdict=False if False in each else undecided,
            finding=". ".join(self._beside(*pair) for pair in pairs),
            numbers={key: self._score(key) for pair in pairs for key in pair},
        )

    def _score(self, row: str) -> float:
        return self.rows[row].scores[self.metric.name]

    def _ahead(self, one: str, other: str) -> bool:
        return self.metric.cost(self._score(one)) < self.metric.cost(self._score(other))

    def _p(self, one: str, other: str) -> float | None:
        """Of the lead that one of them has over the other."""
        if self.significance is None:
            return None
        leader, follower = (one, other) if self._ahead(one, other) else (other, one)
        return round(self.significance(leader, follower), DIGITS)

    def _verdict(self, one: str, other: str) -> bool | None:
        """Whether the first is better; None where its lead, or its lag, may be luck."""
        p = self._p(one, other)
        may_be_luck = p is not None and p >= SIGNIFICANCE_LEVEL
        return None if may_be_luck else self._ahead(one, other)

    def _beside(self, one: str, other: str) -> str:
        """Two rows in words."""
        told = [
            f"{self.rows[row].title}: {self.metric.title} {self._score(row):.2f}"
            for row in (one, other)
        ]
        if (p := self._p(one, other)) is not None:
            told.append(f"p = {p:.{DIGITS}f}")
        return "; ".join(told)
