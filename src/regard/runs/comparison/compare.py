"""Systems side by side on the same data and budget, and what is written of it.

On disk a comparison is JSON and CSV for programs, LaTeX for papers, a page for people.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from regard.core.errors import RegardError, TrainingError
from regard.core.files import write_whole
from regard.data.splits import load_records
from regard.runs.comparison import results
from regard.runs.comparison.results import SPLIT, Comparison, SystemRow
from regard.runs.comparison.trainings import (
    SETTINGS,
    Contest,
    Entry,
    Pairs,
    Stopped,
    Watching,
    Workshop,
    claim,
    contest,
    enter,
)
from regard.runs.estimate import parse_budget
from regard.tasks.opening import pick_device
from regard.tasks.translation import VALID_SENTENCES
from regard.visual.charts import curves
from regard.visual.report import report_page
from regard.visual.tables import csv_table, latex_table

BUDGET = "3e12flops"
SPLITS = (SPLIT, "long")
"""What is translated where the data has it; ``long`` only counts in the scores by length."""

BEYOND = 5
"""How far beyond its lower end a bucket without an upper one is drawn."""


def compare(
    systems: Sequence[str],
    *,
    data: str = "sentences",
    budget: str = BUDGET,
    seeds: Sequence[int] = (1, 2, 3),
    out: Path = Path("runs/compare"),
    device: str | None = None,
    overrides: Sequence[str] = (),
    watching: Watching | None = None,
    say: Callable[[str], None] = lambda _text: None,
) -> Comparison:
    """Train every system with every seed, and lay their scores and costs side by side.

    All share data, tokenizer, search and seeds; batch size, schedule and dropout are those of each
    system's recipe. The budget is that of one training; finding a learning rate comes on top, and
    is counted. Whatever stops a comparison, calling it again goes on where it was. A signal raises
    ``Stopped``; a system that fails becomes a row that says why, unless all fail.
    """
    asked = contest(systems, data, parse_budget(budget), seeds, overrides)
    pick_device(device)  # what cannot be done at all is refused before a folder is taken
    splits = load_records(next(iter(asked.systems.values())).data, "pair").splits
    claim(out, asked)
    pairs = {name: splits[name] for name in SPLITS if name in splits}
    workshop = Workshop(out, device, watching or (lambda _settings: nullcontext(_Silent())), say)
    entries, rows = _all(asked, pairs, workshop)
    rows = results.compared(rows, entries, pairs)
    scores = next(iter(entries.values())).runs[0].facts["scores"][SPLIT]
    comparison = Comparison(
        data=asked.data,
        budget=str(asked.budget),
        seeds=asked.seeds,
        n_sentences=len(pairs[SPLIT]),
        bleu_signature=scores["bleu_signature"],
        chrf_signature=scores["chrf_signature"],
        best=results.best(rows),
        rows=tuple(rows),
    )
    write_comparison(comparison, out)
    return comparison


def _all(
    asked: Contest, pairs: Pairs, workshop: Workshop
) -> tuple[dict[str, Entry], list[SystemRow]]:
    """Train all; what goes wrong with one is no matter of the others."""
    entries: dict[str, Entry] = {}
    rows: list[SystemRow] = []
    for name in asked.systems:
        try:
            entry = enter(name, asked, pairs, workshop)
            rows.append(results.system_row(name, entry, asked.seeds, pairs))
            entries[name] = entry
        except Stopped:
            raise
        except Exception as error:  # hours of the others' work must not go with it
            kind = "" if isinstance(error, RegardError) else f"{type(error).__name__}: "
            rows.append(SystemRow(system=name, error=f"{kind}{error}"))
            workshop.say(f"{name} failed: {rows[-1].error}")
    if not entries:
        reasons = "; ".join(f"{one.system}: {one.error}" for one in rows)
        raise TrainingError(f"no system could be trained: {reasons}")
    return entries, rows


class _Silent:
    """Watches a training and tells nobody."""

    def __call__(self, line: Mapping[str, Any]) -> None:
        pass

    def say(self, text: str) -> None:
        pass


def write_comparison(comparison: Comparison, out: Path) -> None:
    """Write comparison.json, .csv, .tex and .html."""
    papers = (
        results.scores_table(comparison),
        results.lengths_table(comparison),
        results.notes_table(comparison),
    )
    texts = {
        "json": json.dumps(comparison.as_json(), indent=2, ensure_ascii=False) + "\n",
        "csv": csv_table(results.plain_table(comparison)),
        "tex": "\n".join(map(latex_table, papers)),
        "html": _page(comparison, (out / SETTINGS).read_text(encoding="utf-8")),
    }
    for suffix, text in texts.items():
        write_whole(out / f"comparison.{suffix}", text)


def _page(comparison: Comparison, settings: str) -> str:
    tables = (
        results.scores_table,
        results.failures_table,
        results.lengths_table,
        results.notes_table,
    )
    spent = sum(
        len(comparison.seeds) * (row.training_flops or 0) + (row.grid_flops or 0)
        for row in comparison.rows
    )
    return report_page(
        f"{len(comparison.rows)} systems on {comparison.data}",
        facts=[
            ("Best BLEU", comparison.best),
            ("Budget of a training", comparison.budget),
            ("Seeds", ", ".join(map(str, comparison.seeds))),
            ("Test sentences", f"{comparison.n_sentences:,}"),
            ("FLOPs in all", results.flops_text(spent)),
        ],
        tables=[one for one in (table(comparison) for table in tables) if one.rows],
        curves=[_cost_plot(comparison), _length_plot(comparison)],
        settings=settings,
    )


def _cost_plot(comparison: Comparison) -> str:
    """What each system had made of its FLOPs, from the first validation to the last."""
    return curves(
        {row.system: [(at["flops"], at["bleu"]) for at in row.curve] for row in comparison.done},
        title="BLEU against training FLOPs",
        x_label="FLOPs",
        y_label=f"BLEU on valid (greedy, at most {VALID_SENTENCES} sentences)",
    )


def _length_plot(comparison: Comparison) -> str:
    return curves(
        {
            row.system: [(_middle(one), one["bleu"] or 0.0) for one in row.by_length]
            for row in comparison.done
        },
        title="BLEU against source length",
        x_label="words (middle of the bucket)",
        y_label="BLEU",
    )


def _middle(bucket: Mapping[str, float | None]) -> float:
    low, high = bucket["low"] or 0.0, bucket["high"]
    return low + BEYOND if high is None else (low + high) / 2
