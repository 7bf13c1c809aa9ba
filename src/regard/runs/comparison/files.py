"""A comparison on disk: JSON and CSV for programs, LaTeX for papers, a page for people."""

from __future__ import annotations

import json
from pathlib import Path

from regard.core.files import write_whole
from regard.runs.comparison.contest import SETTINGS
from regard.runs.comparison.rows import Comparison
from regard.runs.comparison.tables import (
    failures_table,
    flops_text,
    lengths_table,
    notes_table,
    plain_table,
    scores_table,
)
from regard.runs.translation import VALID_SENTENCES
from regard.visual.charts import curves
from regard.visual.report import report_page
from regard.visual.tables import csv_table, latex_table

BEYOND = 5
"""How far beyond its lower end a bucket without an upper one is drawn."""


def write_comparison(comparison: Comparison, out: Path) -> None:
    """Write comparison.json, .csv, .tex and .html."""
    papers = (scores_table(comparison), lengths_table(comparison), notes_table(comparison))
    texts = {
        "json": json.dumps(comparison.as_json(), indent=2, ensure_ascii=False) + "\n",
        "csv": csv_table(plain_table(comparison)),
        "tex": "\n".join(map(latex_table, papers)),
        "html": _page(comparison, (out / SETTINGS).read_text(encoding="utf-8")),
    }
    for suffix, text in texts.items():
        write_whole(out / f"comparison.{suffix}", text)


def _page(comparison: Comparison, settings: str) -> str:
    failures = failures_table(comparison)
    return report_page(
        f"{len(comparison.rows)} systems on {comparison.data}",
        facts=_facts(comparison),
        tables=[
            scores_table(comparison),
            *([failures] if failures.rows else []),
            lengths_table(comparison),
            notes_table(comparison),
        ],
        curves=[_cost_plot(comparison), _length_plot(comparison)],
        settings=settings,
    )


def _facts(comparison: Comparison) -> list[tuple[str, str]]:
    spent = sum(
        len(comparison.seeds) * (row.training_flops or 0) + (row.grid_flops or 0)
        for row in comparison.rows
    )
    return [
        ("Best BLEU", comparison.best),
        ("Budget of a training", comparison.budget),
        ("Seeds", ", ".join(map(str, comparison.seeds))),
        ("Test sentences", f"{comparison.n_sentences:,}"),
        ("FLOPs in all", flops_text(spent)),
    ]


def _cost_plot(comparison: Comparison) -> str:
    """What each system had made of its FLOPs, from the first validation to the last."""
    return curves(
        {
            row.system: [(point["flops"], point["bleu"]) for point in row.curve]
            for row in comparison.rows
            if row.error is None
        },
        title="BLEU against training FLOPs",
        x_label="FLOPs",
        y_label=f"BLEU on valid (greedy, at most {VALID_SENTENCES} sentences)",
    )


def _length_plot(comparison: Comparison) -> str:
    return curves(
        {
            row.system: [
                (_middle(one["low"], one["high"]), one["bleu"] or 0.0) for one in row.by_length
            ]
            for row in comparison.rows
            if row.error is None
        },
        title="BLEU against source length",
        x_label="words (middle of the bucket)",
        y_label="BLEU",
    )


def _middle(low: float | None, high: float | None) -> float:
    low = low or 0.0
    return low + BEYOND if high is None else (low + high) / 2
