"""What the rows of a lecture's table came to, and the files that keep it.

A section is one data set and one kind of budget. Sections of several commands with the same folder
stand in one table.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from regard.core.errors import CheckpointError
from regard.core.files import parse_json, read_text, write_whole
from regard.evaluation.metrics import METRICS
from regard.runs.comparison import SPLIT, p_value
from regard.runs.lecture_tables import ANY, LectureRow, LectureTable
from regard.runs.trainings import Entry, FinishedTraining, Until

SECTION = "section-{}.json"
"""File of a section in the folder of its data, by the kind of its budget."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowResult:
    """A row: means over the seeds, deviations between them. Of a failed one, only why."""

    row: str
    title: str
    preset: str = ""
    size: str = ""
    kind: str = "single"
    """``single``, or ``ensemble``."""
    error: str | None = None
    reads: int | None = None
    """Tokens of a document at most, its end token among them; None where the lecture names no L."""
    cut: int | None = None
    """Test documents that are longer, so that their ends are not read."""
    parameters: int | None = None
    training_flops: float | None = None
    """Of one run, with those of the run that it started from; of an ensemble, of all members."""
    grid_flops: float | None = None
    """Spent once, to choose the learning rate."""
    seconds: float | None = None
    lr: float | None = None
    ended: str = ""
    """What ended the training of the first seed."""
    scores: Mapping[str, float] = field(default_factory=dict)
    deviations: Mapping[str, float] = field(default_factory=dict)
    p_value: float | None = None
    """Against the best; None for the best itself, and where none is computed."""
    curve: Sequence[Mapping[str, float]] = ()
    """Scores at each validation, against the FLOPs so far."""
    seeds: Sequence[Mapping[str, Any]] = ()
    published: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether a claim of the lecture holds in a section; None where that cannot be told."""

    claim: str
    verdict: bool | None
    finding: str
    numbers: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One data set with one kind of budget."""

    data: str
    direction: str
    budget: str
    until: Until
    size: str
    seeds: Sequence[int]
    members: int
    """Runs of an ensemble."""
    n: int
    best: str
    signatures: Mapping[str, str]
    rows: Sequence[RowResult]
    verdicts: Sequence[Verdict]

    @property
    def done(self) -> list[RowResult]:
        """Rows that did not fail."""
        return [row for row in self.rows if row.error is None]


def row_result(
    row: LectureRow,
    entry: Entry,
    *,
    direction: str,
    size: str,
    seeds: Sequence[int],
    reads: int | None = None,
) -> RowResult:
    """One finished row; its significance needs the others."""
    facts = [run.facts["measured"] for run in entry.runs]
    scores = [_numbers(run.facts["scores"][SPLIT]) for run in entry.runs]
    spread = {name: [one[name] for one in scores] for name in scores[0]}
    first = entry.runs[0]
    return RowResult(
        row=row.key,
        title=row.title,
        preset=row.preset,
        size=size,
        kind=row.kind,
        reads=reads,
        cut=first.facts["scores"][SPLIT].get("cut"),
        parameters=facts[0]["parameters"],
        training_flops=statistics.fmean(one["flops"] for one in facts),
        grid_flops=sum(trial.flops for trial in entry.trials),
        seconds=statistics.fmean(one["seconds"] for one in facts),
        lr=entry.lr or None,
        ended=first.facts.get("ended", ""),
        scores={name: statistics.fmean(values) for name, values in spread.items()},
        deviations={
            name: statistics.stdev(values) for name, values in spread.items() if len(values) > 1
        },
        curve=[
            {"flops": line["flops"], **_numbers(line)} for line in first.metrics if "flops" in line
        ],
        seeds=[
            {"seed": seed, "flops": cost["flops"], **one}
            for seed, cost, one in zip(seeds, facts, scores, strict=False)
        ],
        published=published(row, direction),
    )


def _numbers(scores: Mapping[str, Any]) -> dict[str, float]:
    """Of all that is told of a split, what is a metric."""
    return {name: value for name, value in scores.items() if name in METRICS and value is not None}


def published(row: LectureRow, direction: str) -> dict[str, float]:
    """What the lecture prints of a row, for a pair of languages; nothing where it prints none."""
    return dict(row.published.get(direction, row.published.get(ANY, {})))


def best_row(rows: Sequence[RowResult], metric: str) -> str:
    """The row with the best score; of equals, the first."""
    able = [row for row in rows if metric in row.scores]
    return min(able, key=lambda row: METRICS[metric].cost(row.scores[metric])).row


Significance = Callable[[str, str], float]
"""Two rows -> p of the lead that the first has by the table's first metric; 1 where it has none."""


def significance_of(
    runs: Mapping[str, Sequence[FinishedTraining]], metric: str, references: Sequence[str]
) -> Significance:
    """By a paired bootstrap of the rows' runs, one a seed."""

    @cache
    def p(leader: str, follower: str) -> float:
        return p_value(runs[leader], runs[follower], references, metric)

    return p


def with_significance(
    rows: Sequence[RowResult], best: str, significance: Significance
) -> list[RowResult]:
    """The rows with p of the lead that the best of them has."""
    return [
        row
        if row.error is not None or row.row == best
        else replace(row, p_value=significance(best, row.row))
        for row in rows
    ]


def save_section(section: Section, folder: Path) -> None:
    """Write a section into the folder of its data."""
    text = json.dumps(asdict(section), indent=2, ensure_ascii=False) + "\n"
    write_whole(folder / SECTION.format(section.until), text)


def check_same_table(table: LectureTable, out: Path) -> None:
    """Refuse a folder that has rows of another table; what is damaged there is told later."""
    known = {row.key for row in table.rows}
    for path in sorted(out.glob(f"*/{SECTION.format('*')}")):
        try:
            found = {str(row["row"]) for row in parse_json(read_text(path))["rows"]}
        except (ValueError, TypeError, KeyError):
            continue
        if others := sorted(found - known):
            raise CheckpointError(
                f"{path} has rows of another table than {table.name!r} ({', '.join(others)}); "
                "choose another --out"
            )


def load_sections(out: Path) -> list[Section]:
    """All sections in a table's folder, in order of their data and budget."""
    found = []
    for path in sorted(out.glob(f"*/{SECTION.format('*')}")):
        try:
            raw = parse_json(read_text(path))
            rows = [RowResult(**row) for row in raw.pop("rows")]
            said = [Verdict(**one) for one in raw.pop("verdicts")]
            found.append(Section(**raw, rows=rows, verdicts=said))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise CheckpointError(
                f"{path} is damaged: {error}; delete it and run the command again"
            ) from None
    return found
