"""A lecture's table for people and programs: ours beside the published figures, and its files."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from regard.core.files import write_whole
from regard.core.numbers import counted, measured
from regard.evaluation.metrics import METRICS
from regard.runs.comparison import NONE, flops_text, mean_and_spread
from regard.runs.lecture_tables import SHORTEST, LectureTable
from regard.runs.table_results import RowResult, Section
from regard.runs.trainings import Until
from regard.visual.charts import curves
from regard.visual.report import report_page
from regard.visual.tables import Table, csv_table, latex_table

ONE_SEED = "one seed may lead by chance, which p of the test examples cannot tell"
BUDGETS: Mapping[Until, str] = {"budget": "equal budgets", "converged": "to convergence"}


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
