"""A comparison as tables: for people, and for programs that go on computing."""

from __future__ import annotations

from dataclasses import fields

from regard.core.durations import measured
from regard.runs.comparison.rows import SPLIT, Comparison, Row
from regard.visual.tables import Table

NONE = "–"
HARD = "\N{NO-BREAK SPACE}"
HEADER = (
    "System",
    "Parameters",
    "FLOPs",
    "Grid FLOPs",
    "Time",
    "Rate",
    "BLEU",
    "chrF",
    "Exact, %",
    "p",
    "AER, %",
)
NOTES = (
    ("±", "standard deviation over the seeds"),
    ("FLOPs", "of one training, forward and backward, padding included; one count for all systems"),
    ("Grid FLOPs", "spent once, to choose the learning rate by the loss on valid"),
    ("Time", "of one training with its validations"),
    (
        "Rate",
        "the best of the grid; * where it is the smallest or largest, so a better may be beyond",
    ),
    ("BLEU by length", "with effective order (eff:yes), since short buckets lack long n-grams"),
    ("p", "paired bootstrap of BLEU, the largest p of all seeds; 1 where the best does not lead"),
    ("AER", "alignment error rate of the attention that was chosen on valid"),
)
_LISTS = ("lr_grid", "by_length", "curve", "seeds")


def scores_table(comparison: Comparison) -> Table:
    """The lecture's table."""
    n_seeds = len(comparison.seeds)
    return Table(
        f"{comparison.data}: {SPLIT}, {comparison.n_sentences:,} sentences; {comparison.budget} "
        f"a training; {n_seeds} {'seed' if n_seeds == 1 else 'seeds'}",
        HEADER,
        [_scores(row, comparison.best) for row in comparison.rows],
    )


def lengths_table(comparison: Comparison) -> Table:
    """BLEU by the length of the source, a column a bucket; first, how many sentences are in it."""
    done = [row for row in comparison.rows if row.error is None]
    buckets = done[0].by_length
    counts = ["(sentences)", *(str(one["n"]) for one in buckets)]
    rows = [[row.system, *(f"{one['bleu']:.2f}" for one in row.by_length)] for row in done]
    header = ["System", *(bucket_name(one["low"], one["high"]) for one in buckets)]
    return Table("BLEU by source length in words", header, [counts, *rows])


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
    names = [one.name for one in fields(Row) if one.name not in _LISTS]
    done = next(row for row in comparison.rows if row.error is None)
    buckets = [f"bleu_{one['low']}_{one['high'] or 'more'}" for one in done.by_length]
    rows = []
    for row in comparison.rows:
        scores = [one["bleu"] for one in row.by_length] or [None] * len(buckets)
        signatures = [comparison.bleu_signature, comparison.chrf_signature]
        values = [*(getattr(row, name) for name in names), *scores, *signatures]
        rows.append(["" if value is None else str(value) for value in values])
    return Table("", [*names, *buckets, "bleu_signature", "chrf_signature"], rows)


def _rate(row: Row) -> str:
    """The rate chosen, with a star where the grid ended there."""
    tried = [one["lr"] for one in row.lr_grid if one["lr"] is not None]
    at_the_edge = len(tried) > 1 and row.lr in (min(tried), max(tried))
    return f"{row.lr:g}{'*' if at_the_edge else ''}"


def bucket_name(low: float | None, high: float | None) -> str:
    """Such as 6–10, or 41 and more."""
    return f"{low} and more" if high is None else f"{low}–{high}"


def _scores(row: Row, best: str) -> list[str]:
    if row.error is not None:
        return [row.system, "failed", *[NONE] * (len(HEADER) - 2)]
    return [
        row.system,
        f"{row.parameters:,}",
        flops_text(row.training_flops),
        flops_text(row.grid_flops),
        measured(row.seconds or 0.0),
        _rate(row),
        _spread(row.bleu, row.bleu_deviation, 1, 2),
        _spread(row.chrf, row.chrf_deviation, 1, 2),
        _spread(row.exact_match, row.exact_match_deviation, 100, 1),
        "best" if row.system == best else f"{row.p_value:.3f}",
        _spread(row.aer, row.aer_deviation, 100, 1),
    ]


def _spread(mean: float | None, deviation: float | None, unit: int, digits: int) -> str:
    if mean is None:
        return NONE
    text = f"{unit * mean:.{digits}f}"
    return text if deviation is None else f"{text}{HARD}±{HARD}{unit * deviation:.{digits}f}"


def flops_text(value: float | None) -> str:
    """Three digits and a power of ten."""
    return NONE if value is None else f"{value:.2e}".replace("e+", "e")
