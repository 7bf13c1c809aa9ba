"""What came of a comparison: a row a system, tables of them, and the files that are written.

On disk a comparison is JSON and CSV for programs, LaTeX for papers, a page for people.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from regard.core.files import write_whole
from regard.core.numbers import counted, measured
from regard.data.records import Pair
from regard.evaluation.systems import by_length, paired_bootstrap
from regard.runs.rates import is_at_edge
from regard.runs.trainings import Entry, FinishedTraining
from regard.tasks.translation_training import VALID_SENTENCES
from regard.visual.charts import curves
from regard.visual.report import report_page
from regard.visual.tables import Table, csv_table, latex_table, table_html

SETTINGS = "settings.yaml"
SPLIT = "test"
SCORES = ("bleu", "chrf", "exact_match", "aer")
"""What is given with its deviation over the seeds."""

NONE = "–"
HARD = "\N{NO-BREAK SPACE}"
HEADER = (
    "System", "Parameters", "FLOPs", "Grid FLOPs", "Time", "Rate", "BLEU", "chrF", "Exact, %", "p",
    "AER, %",
)  # fmt: skip
NOTES = (
    ("±", "standard deviation over the seeds"),
    (
        "FLOPs",
        "of one training, forward and backward, of the texts without their padding; one count for "
        "all systems, of matrix products alone: a score that works element by element costs time, "
        "and no FLOPs",
    ),
    ("Grid FLOPs", "spent once, to choose the learning rate by the loss on valid"),
    ("Time", "of one training with its validations"),
    (
        "Rate",
        "the best of a grid that widens until it is inside; * where the grid came to its bound, so "
        "a better may be beyond",
    ),
    ("BLEU by length", "with effective order (eff:yes), since short buckets lack long n-grams"),
    ("p", "paired bootstrap of BLEU, the largest p of all seeds; 1 where the best does not lead"),
    ("AER", "alignment error rate of the attention that was chosen on valid"),
)
_LISTS = ("lr_grid", "by_length", "curve", "seeds")
BEYOND = 5
"""How far beyond its lower end a bucket without an upper one is drawn."""

Pairs = Mapping[str, Sequence[Pair]]
"""Pairs to translate, by the name of their split."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemRow:
    """A system: means over the seeds, deviations between them. Of a failed one, only why."""

    system: str
    error: str | None = None
    parameters: int | None = None
    steps: float | None = None
    tokens: float | None = None
    training_flops: float | None = None
    """Of one training; those of the grid come on top, once."""
    grid_flops: float | None = None
    seconds: float | None = None
    grid_seconds: float | None = None
    lr: float | None = None
    lr_grid: list[dict[str, float | None]] = field(default_factory=list)
    bleu: float | None = None
    bleu_deviation: float | None = None
    chrf: float | None = None
    chrf_deviation: float | None = None
    exact_match: float | None = None
    exact_match_deviation: float | None = None
    p_value: float | None = None
    """Against the best; None for the best itself. See ``p_value``."""
    aer: float | None = None
    """Of the attention that was chosen on ``valid``; None where there is nothing to align."""
    aer_deviation: float | None = None
    by_length: list[dict[str, float | None]] = field(default_factory=list)
    curve: list[dict[str, float]] = field(default_factory=list)
    """BLEU at each validation, against the FLOPs so far."""
    seeds: list[dict[str, float]] = field(default_factory=list)
    """Each seed by itself."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The table, and what it rests on."""

    data: str
    budget: str
    seeds: tuple[int, ...]
    n_sentences: int
    bleu_signature: str
    chrf_signature: str
    best: str
    """The system with the highest BLEU."""
    rows: tuple[SystemRow, ...]
    differences: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """Settings in which the systems differ beside their names and scores -> a value a row."""

    @property
    def warnings(self) -> list[str]:
        """What speaks against trusting the order of the systems."""
        return [*self._confounders(), *self._weaknesses()]

    def _confounders(self) -> list[str]:
        """What may have decided the order in place of the models themselves."""
        named = [
            f"{name} ({', '.join(map(_value, values))})"
            for name, values in self.differences.items()
        ]
        return [f"these systems also differ in {', '.join(named)}"] if named else []

    def _weaknesses(self) -> list[str]:
        """What was not searched or repeated enough."""
        edge = [f"{row.lr:g} of {row.system}" for row in self.done if _is_at_edge(row)]
        told = [f"learning rate {one} is at the edge of its grid" for one in edge]
        return [*told, "one seed, so the order may be chance"] if len(self.seeds) == 1 else told

    @property
    def done(self) -> list[SystemRow]:
        """The rows of systems that did not fail."""
        return [row for row in self.rows if row.error is None]

    def __repr__(self) -> str:
        told = [f"{row.system} {row.bleu:.2f}" for row in self.done]
        failed = [f"{row.system} failed" for row in self.rows if row.error is not None]
        named = f"{self.data}, {self.budget}, {counted(len(self.seeds), 'seed')}"
        return f"<Comparison on {named}: BLEU {', '.join([*told, *failed])}>"

    def _repr_html_(self) -> str:
        """The tables of its page, in a notebook."""
        tables = scores_table(self), failures_table(self), lengths_table(self), notes_table(self)
        return "".join(table_html(one) for one in tables if one.rows)

    def as_json(self) -> dict[str, Any]:
        """What ``regard compare --json`` prints."""
        return {
            "data": self.data,
            "split": SPLIT,
            "n": self.n_sentences,
            "budget": self.budget,
            "seeds": list(self.seeds),
            "best": self.best,
            "warnings": self.warnings,
            "differences": {name: list(values) for name, values in self.differences.items()},
            "bleu_signature": self.bleu_signature,
            "chrf_signature": self.chrf_signature,
            "systems": [asdict(row) for row in self.rows],
        }


def system_row(name: str, entry: Entry, seeds: Sequence[int], pairs: Pairs) -> SystemRow:
    """One finished system; its significance needs the others."""
    runs = entry.runs
    measured = [run.facts["measured"] for run in runs]
    scores = [run.facts["scores"][SPLIT] for run in runs]

    def of(facts: Sequence[Mapping[str, float]], key: str) -> float:
        return statistics.fmean(one[key] for one in facts)

    return SystemRow(
        system=name,
        parameters=measured[0]["parameters"],
        steps=of(measured, "steps"),
        tokens=of(measured, "tokens"),
        training_flops=of(measured, "flops"),
        grid_flops=sum(trial.flops for trial in entry.trials),
        seconds=of(measured, "seconds"),
        grid_seconds=sum(trial.seconds for trial in entry.trials),
        lr=entry.lr,
        lr_grid=[
            {"lr": trial.lr, "loss": trial.loss, "share": trial.share} for trial in entry.trials
        ],
        **{name: x for key in SCORES for name, x in _spread(key, scores).items()},
        by_length=_by_length(runs, pairs),
        curve=[  # the mean over the seeds at each validation that all of them had
            {key: of(lines, key) for key in ("flops", "bleu")}
            for lines in zip(*(run.metrics for run in runs), strict=False)
        ],
        seeds=[
            {
                "seed": seed,
                **{key: found[key] for key in SCORES if key in found},
                "flops": cost["flops"],
                "seconds": cost["seconds"],
            }
            for seed, found, cost in zip(seeds, scores, measured, strict=True)
        ],
    )


def compared(
    rows: Sequence[SystemRow], entries: Mapping[str, Entry], pairs: Pairs
) -> list[SystemRow]:
    """The rows with their significance against the best of them."""
    first, references = best(rows), [pair.target for pair in pairs[SPLIT]]
    p = {
        name: p_value(entries[first].runs, entry.runs, references)
        for name, entry in entries.items()
        if name != first
    }
    return [replace(one, p_value=p.get(one.system)) for one in rows]


def best(rows: Sequence[SystemRow]) -> str:
    """The system with the highest BLEU; of equals, the one named first."""
    return max((one for one in rows if one.bleu is not None), key=lambda one: one.bleu or 0).system


def p_value(
    better: Sequence[FinishedTraining],
    other: Sequence[FinishedTraining],
    references: Sequence[str],
    metric: str = "bleu",
) -> float:
    """Paired bootstrap, seed by seed; the largest p of all seeds.

    With a seed for which the better system does not lead, p is 1. So a small one says: better with
    every seed, and not by the luck of these sentences. One seed's outputs alone could not say the
    first; all seeds' outputs in one heap would count each sentence several times, and pretend to
    more evidence than there is. What has one run, such as an ensemble, stands beside every seed.
    """
    n = max(len(better), len(other))
    better, other = (tuple(some) * (n if len(some) == 1 else 1) for some in (better, other))
    found = [
        paired_bootstrap(a.translations[SPLIT], b.translations[SPLIT], references, metric=metric)
        for a, b in zip(better, other, strict=True)
    ]
    return max(one.p_value if one.difference > 0 else 1.0 for one in found)


def _spread(key: str, scores: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    """Mean and deviation over the seeds; nothing where no seed has the score."""
    values = [one[key] for one in scores if key in one]
    return {
        key: statistics.fmean(values) if values else None,
        f"{key}_deviation": statistics.stdev(values) if len(values) > 1 else None,
    }


def _by_length(runs: Sequence[FinishedTraining], pairs: Pairs) -> list[dict[str, float | None]]:
    """BLEU by source length, the mean over the seeds; every split that was translated counts."""
    everything = [pair for some in pairs.values() for pair in some]
    sources, references = zip(*((pair.source, pair.target) for pair in everything), strict=True)
    found = [
        by_length(sources, [text for name in pairs for text in run.translations[name]], references)
        for run in runs
    ]
    return [
        {
            "low": buckets[0].low,
            "high": buckets[0].high,
            "n": buckets[0].n,
            "bleu": statistics.fmean(bucket.bleu for bucket in buckets),
            "exact_match": statistics.fmean(bucket.exact_match for bucket in buckets),
        }
        for buckets in zip(*found, strict=True)
    ]


def scores_table(comparison: Comparison) -> Table:
    """The lecture's table."""
    return Table(
        f"{comparison.data}: {SPLIT}, {comparison.n_sentences:,} sentences; {comparison.budget} "
        f"a training; {counted(len(comparison.seeds), 'seed')}"
        + "".join(f"; warning: {one}" for one in comparison.warnings),
        HEADER,
        [_scores(row, comparison.best) for row in comparison.rows],
    )


def lengths_table(comparison: Comparison) -> Table:
    """BLEU by the length of the source, a column a bucket; first, how many sentences are in it."""
    buckets = comparison.done[0].by_length
    counts = ["(sentences)", *(str(one["n"]) for one in buckets)]
    rows = [
        [row.system, *(f"{one['bleu']:.2f}" for one in row.by_length)] for row in comparison.done
    ]
    ranges = [
        f"{x['low']} and more" if x["high"] is None else f"{x['low']}–{x['high']}" for x in buckets
    ]
    return Table("BLEU by source length in words", ["System", *ranges], [counts, *rows])


def notes_table(comparison: Comparison) -> Table:
    """How the numbers came about."""
    signatures = (("BLEU", comparison.bleu_signature), ("chrF", comparison.chrf_signature))
    return Table("How the numbers were computed", ["Column", "How"], [*signatures, *NOTES])


def failures_table(comparison: Comparison) -> Table:
    """What could not be trained, and why."""
    rows = [[row.system, row.error] for row in comparison.rows if row.error is not None]
    return Table("Failed", ["System", "Why"], rows)


def plain_table(comparison: Comparison) -> Table:
    """One row a system, one number a cell, with all its digits: for programs."""
    names = [one.name for one in fields(SystemRow) if one.name not in _LISTS]
    first = comparison.done[0]
    buckets = [f"bleu_{one['low']}_{one['high'] or 'more'}" for one in first.by_length]
    rows = []
    for row in comparison.rows:
        scores = [one["bleu"] for one in row.by_length] or [None] * len(buckets)
        signatures = [comparison.bleu_signature, comparison.chrf_signature]
        values = [*(getattr(row, name) for name in names), *scores, *signatures]
        rows.append(["" if value is None else str(value) for value in values])
    return Table("", [*names, *buckets, "bleu_signature", "chrf_signature"], rows)


def _value(value: Any) -> str:
    """A setting as a recipe writes it."""
    return json.dumps(value, ensure_ascii=False).strip('"')


def _rate(row: SystemRow) -> str:
    """The rate chosen, with a star where the grid ended there, for it widens no further."""
    return f"{row.lr:g}{'*' if _is_at_edge(row) else ''}"


def _is_at_edge(row: SystemRow) -> bool:
    tried = [one["lr"] for one in row.lr_grid if one["lr"] is not None]
    return row.lr is not None and is_at_edge(row.lr, tried)


def _scores(row: SystemRow, best: str) -> list[str]:
    if row.error is not None:
        return [row.system, "failed", *[NONE] * (len(HEADER) - 2)]
    return [
        row.system,
        f"{row.parameters:,}",
        flops_text(row.training_flops),
        flops_text(row.grid_flops),
        measured(row.seconds or 0.0),
        _rate(row),
        mean_and_spread(row.bleu, row.bleu_deviation, 1, 2),
        mean_and_spread(row.chrf, row.chrf_deviation, 1, 2),
        mean_and_spread(row.exact_match, row.exact_match_deviation, 100, 1),
        "best" if row.system == best else f"{row.p_value:.3f}",
        mean_and_spread(row.aer, row.aer_deviation, 100, 1),
    ]


def mean_and_spread(mean: float | None, deviation: float | None, unit: int, digits: int) -> str:
    """A mean and its deviation over the seeds, ``unit`` times as large."""
    if mean is None:
        return NONE
    text = f"{unit * mean:.{digits}f}"
    return text if deviation is None else f"{text}{HARD}±{HARD}{unit * deviation:.{digits}f}"


def flops_text(value: float | None) -> str:
    """Three digits and a power of ten."""
    return NONE if value is None else f"{value:.2e}".replace("e+", "e")


def write_comparison(comparison: Comparison, out: Path) -> None:
    """Write comparison.json, .csv, .tex and .html."""
    scores, lengths = scores_table(comparison), lengths_table(comparison)
    notes, failures = notes_table(comparison), failures_table(comparison)
    tables = [scores, *([failures] if failures.rows else []), lengths, notes]
    texts = {
        "json": json.dumps(comparison.as_json(), indent=2, ensure_ascii=False) + "\n",
        "csv": csv_table(plain_table(comparison)),
        "tex": "\n".join(map(latex_table, (scores, lengths, notes))),
        "html": _page(comparison, tables, (out / SETTINGS).read_text(encoding="utf-8")),
    }
    for suffix, text in texts.items():
        write_whole(out / f"comparison.{suffix}", text)


def _page(comparison: Comparison, tables: Sequence[Table], settings: str) -> str:
    spent = sum(
        len(comparison.seeds) * (row.training_flops or 0) + (row.grid_flops or 0)
        for row in comparison.rows
    )
    by_cost, by_words = {}, {}
    for row in comparison.done:
        by_cost[row.system] = [(at["flops"], at["bleu"]) for at in row.curve]
        by_words[row.system] = [(_middle(one), one["bleu"] or 0.0) for one in row.by_length]
    on_valid = f"BLEU on valid (greedy, at most {VALID_SENTENCES} sentences)"
    words = "words (middle of the bucket)"
    return report_page(
        f"{len(comparison.rows)} systems on {comparison.data}",
        kind="Comparison",
        facts=[
            ("Best BLEU", comparison.best),
            *(("Warning", one) for one in comparison.warnings),
            ("Budget of a training", comparison.budget),
            ("Seeds", ", ".join(map(str, comparison.seeds))),
            ("Test sentences", f"{comparison.n_sentences:,}"),
            ("FLOPs in all", flops_text(spent)),
        ],
        tables=tables,
        curves=[
            curves(by_cost, title="BLEU against training FLOPs", x_label="FLOPs", y_label=on_valid),
            curves(by_words, title="BLEU against source length", x_label=words, y_label="BLEU"),
        ],
        settings=settings,
    )


def _middle(bucket: Mapping[str, float | None]) -> float:
    low, high = bucket["low"] or 0.0, bucket["high"]
    return low + BEYOND if high is None else (low + high) / 2
