"""A lecture's table as it came out here: rows beside the published figures, and files.

A section is one data set and one kind of budget. Sections of several commands with the same folder
stand in one table.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from regard.core.errors import CheckpointError
from regard.core.files import parse_json, read_text, write_whole
from regard.core.numbers import counted, measured
from regard.evaluation.metrics import METRICS
from regard.runs.comparison import NONE, SPLIT, flops_text, mean_and_spread, p_value
from regard.runs.lecture_tables import ANY, SHORTEST, LectureRow, LectureTable
from regard.runs.trainings import Entry, FinishedTraining, Until
from regard.visual.charts import curves
from regard.visual.report import report_page
from regard.visual.tables import Table, csv_table, latex_table

SECTION = "section-{}.json"
"""File of a section in the folder of its data, by the kind of its budget."""
ONE_SEED = "one seed may lead by chance, which p of the test examples cannot tell"
BUDGETS: Mapping[Until, str] = {"budget": "equal budgets", "converged": "to convergence"}


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


def section_title(section: Section) -> str:
    """A section in words."""
    return (
        f"{section.data}{section.direction and f' ({section.direction})'}, "
        f"{BUDGETS[section.until]}: "
        f"{section.n:,} test examples, {_limit(section)} a training, "
        f"{counted(len(section.seeds), 'seed')}"
    )


def _limit(section: Section) -> str:
    """What a training may take."""
    return "the recipe's length" if section.until == "converged" else str(section.budget)


def section_table(table: LectureTable, section: Section) -> Table:
    """The lecture's table with ours beside it."""
    columns = _columns(table)
    rows = [[column.cell(section, row) for column in columns] for row in section.rows]
    return Table(section_title(section), [column.title for column in columns], rows)


@dataclass(frozen=True, slots=True)
class _Column:
    """A column as people see it; ``how`` is a note on its numbers."""

    title: str
    text: Callable[[Section, RowResult], str]
    how: str = ""
    of_failed: str | None = NONE
    """What stands there of a row that failed; None: as of any other."""

    def cell(self, section: Section, row: RowResult) -> str:
        """What stands there of a row."""
        if row.error is not None and self.of_failed is not None:
            return self.of_failed
        return self.text(section, row)


def _columns(table: LectureTable) -> list[_Column]:
    """The columns of a table, in their order."""
    names = [name for name in table.metrics if _printed(table, name)]
    return [
        _Column("Model", lambda _, row: row.title, table.differences, None),
        *([_READS] if any(row.max_len is not None for row in table.rows) else []),
        _Column("Parameters", lambda _, row: f"{row.parameters:,}", "", "failed"),
        _Column(
            "FLOPs",
            lambda _, row: flops_text(row.training_flops),
            "of one training, with the one that it started from; of an ensemble, of all",
        ),
        _Column(
            "Grid FLOPs",
            lambda _, row: flops_text(row.grid_flops) if row.grid_flops else NONE,
            "spent once, to choose the learning rate by the loss on valid",
        ),
        _Column("Time", lambda _, row: measured(row.seconds or 0.0)),
        _Column("Rate", lambda _, row: NONE if row.lr is None else f"{row.lr:g}"),
        *(_Column(METRICS[name].title, partial(_score, name)) for name in table.metrics),
        _Column(
            "p",
            _p,
            f"paired bootstrap of {METRICS[table.metrics[0]].title}, the largest of all seeds; a "
            "row's is against the best",
        ),
        *(
            _Column(f"published {METRICS[name].title}", partial(_figure, name), "", None)
            for name in names
        ),
        *([_PUBLISHED_FLOPS] if _printed(table, "flops") else []),
    ]


def _printed(table: LectureTable, name: str) -> bool:
    return any(name in figures for row in table.rows for figures in row.published.values())


def _score(name: str, _section: Section, row: RowResult) -> str:
    return mean_and_spread(row.scores.get(name), row.deviations.get(name), 1, 2)


def _p(section: Section, row: RowResult) -> str:
    if row.row == section.best:
        return "best"
    return NONE if row.p_value is None else f"{row.p_value:.3f}"


def _figure(name: str, _section: Section, row: RowResult) -> str:
    return f"{row.published[name]:g}" if name in row.published else NONE


_READS = _Column(
    "Reads",
    lambda _, row: NONE if row.reads is None else f"{row.reads:,}",
    "tokens of a document that the model reads here, its end token among them; L is what the "
    "lecture's model read",
    None,
)
_PUBLISHED_FLOPS = _Column(
    "published FLOPs", lambda _, row: flops_text(row.published.get("flops")), "", None
)


def verdicts_table(section: Section) -> Table:
    """The lecture's claims, and whether they hold here."""
    words = {True: "holds", False: "does not hold", None: "cannot be told"}
    rows = [[one.claim, words[one.verdict], one.finding] for one in section.verdicts]
    return Table(f"What the lecture claims: {section_title(section)}", _CLAIMS, rows)


_CLAIMS = ("Claim", "Verdict", "Numbers")


def notes_table(table: LectureTable, sections: Sequence[Section]) -> Table:
    """How the numbers came about."""
    signatures = {name: how for one in sections for name, how in one.signatures.items()}
    sizes = dict.fromkeys(one.size for one in sections)
    shorter, fewer = (
        {size: divisors[size] for size in sizes if size in divisors}
        for divisors in (table.shorter, table.fewer_experts)
    )
    rows = [
        *((METRICS[name].title, how) for name, how in signatures.items()),
        ("published", f"as the lecture prints it, {table.where}: other data than ours"),
        *((column.title, column.how) for column in _columns(table) if column.how),
        *(
            ("L", f"divided by {n} where models are {size}, {SHORTEST} at least")
            for size, n in shorter.items()
        ),
        *(("MoE", f"experts divided by {n} where models are {size}") for size, n in fewer.items()),
        ("±", "standard deviation over the seeds"),
        *([("Seeds", ONE_SEED)] if any(len(one.seeds) == 1 for one in sections) else []),
    ]
    return Table("How the numbers were computed", ["Column", "How"], rows)


def failures_table(sections: Sequence[Section]) -> Table:
    """What could not be trained, and why."""
    rows = [[one.data, row.title, row.error] for one in sections for row in one.rows if row.error]
    return Table("Failed", ["Data", "Model", "Why"], rows)


def plain_table(table: LectureTable, sections: Sequence[Section]) -> Table:
    """One row a row and section, one number a cell, with all its digits: for programs."""
    of_section = ("data", "direction", "budget", "until", "size", "n")
    of_row = (
        *("row", "title", "preset", "kind", "reads", "cut", "parameters"),
        *("training_flops", "grid_flops", "seconds", "lr", "p_value", "ended", "error"),
    )
    printed = [n for n in (*table.metrics, "flops") if _printed(table, n)]
    deviations = [f"{name}_deviation" for name in table.metrics]
    header = [
        *of_section,
        *of_row,
        *table.metrics,
        *deviations,
        *(f"published_{n}" for n in printed),
    ]
    rows = []
    for section in sections:
        for row in section.rows:
            values = [
                *(getattr(section, name) for name in of_section),
                *(getattr(row, name) for name in of_row),
                *(row.scores.get(name) for name in table.metrics),
                *(row.deviations.get(name) for name in table.metrics),
                *(row.published.get(name) for name in printed),
            ]
            rows.append(["" if value is None else str(value) for value in values])
    return Table("", header, rows)


def as_json(table: LectureTable, sections: Sequence[Section]) -> dict[str, Any]:
    """What ``regard table --json`` prints."""
    return {
        "table": table.name,
        "published_on": table.where,
        "sections": [asdict(section) for section in sections],
    }


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


def write_table(table: LectureTable, sections: Sequence[Section], out: Path) -> None:
    """Write table.json, .csv, .tex and .html."""
    shown = [one for s in sections for one in (section_table(table, s), verdicts_table(s))]
    failures, notes = failures_table(sections), notes_table(table, sections)
    tables = [*shown, *([failures] if failures.rows else []), notes]
    texts = {
        "json": json.dumps(as_json(table, sections), indent=2, ensure_ascii=False) + "\n",
        "csv": csv_table(plain_table(table, sections)),
        "tex": "\n".join(map(latex_table, (*shown, notes))),
        "html": report_page(
            f"The lecture's table: {table.name}",
            kind="Table",
            facts=[("Sections", str(len(sections))), ("Published on", table.where)],
            curves=[_curves(table, section) for section in sections],
            tables=tables,
        ),
    }
    for suffix, text in texts.items():
        write_whole(out / f"table.{suffix}", text)


def _curves(table: LectureTable, section: Section) -> str:
    name = next((n for n in (*table.metrics, "loss") if any(n in at for r in section.done
                 for at in r.curve)), "loss")  # fmt: skip
    lines = {
        row.title: [(at["flops"], at[name]) for at in row.curve if name in at]
        for row in section.done
        if row.curve
    }
    title = f"{section.data}, {BUDGETS[section.until]}"
    return curves(lines, title=title, x_label="FLOPs", y_label=f"{METRICS[name].title} on valid")
