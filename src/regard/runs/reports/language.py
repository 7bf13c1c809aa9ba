"""report.html of a language model: what it learned, how, at what cost, and what it writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from regard.core.files import write_whole
from regard.runs.kinds.writer import Writer
from regard.runs.reports.parts import cost_table, headline, loss_curve, pace_curves, series
from regard.training.metrics import read_metrics
from regard.visual.charts import curves
from regard.visual.report import Sample, report_page
from regard.visual.tables import Table

N_SAMPLES, SAMPLE_TOKENS = 4, 120


def write_language_report(run: Writer, facts: Mapping[str, Any]) -> None:
    """Make the page from the metrics, the scores and some texts."""
    scores = facts["scores"]
    page = report_page(
        f"{run.recipe.model.preset}: {run.folder.path.name}",
        facts=headline(run.model, facts, seen="tokens"),
        curves=_curves(run),
        tables=[*_tables(scores), cost_table(facts)],
        samples=_samples(run),
        settings=run.folder.settings.read_text(encoding="utf-8"),
    )
    write_whole(run.folder.report, page)


def _curves(run: Writer) -> list[str]:
    lines = read_metrics(run.folder.metrics)
    smoothed = run.recipe.train.label_smoothing > 0
    return [
        loss_curve(lines, training="training (smoothed)" if smoothed else "training"),
        curves(
            {"perplexity": series(lines, "valid", "perplexity")},
            title="Validation: windows that do not overlap",
            x_label="step",
            y_label="perplexity",
        ),
        *pace_curves(lines, seen="tokens"),
    ]


def _tables(scores: Mapping[str, Mapping[str, Any]]) -> list[Table]:
    answered = any("parts" in one for one in scores.values())
    return [*([_scores(scores)] if scores else []), *([_parts(scores)] if answered else [])]


def _parts(scores: Mapping[str, Mapping[str, Any]]) -> Table:
    """Tasks that are written as texts: what was chosen, what was written."""
    header = ["Task", "Test set", "Texts", "Right of a few", "Written exactly", "BLEU"]
    rows = [
        [
            name,
            test_set,
            f"{part['n']:,}",
            f"{100 * part['accuracy']:.1f} %" if "accuracy" in part else "–",
            f"{100 * part['exact_match']:.1f} %" if "exact_match" in part else "–",
            f"{part['bleu']:.2f}" if "bleu" in part else "–",
        ]
        for test_set, one in scores.items()
        for name, part in one.get("parts", {}).items()
    ]
    return Table("Answers, as texts to go on with", header, rows)


def _scores(scores: Mapping[str, Mapping[str, Any]]) -> Table:
    header = ["Test set", "Texts", "Tokens", "Loss", "Perplexity", "a word", "Next token right"]
    rows = [
        [
            name,
            f"{one['n']:,}",
            f"{one['tokens']:,}",
            f"{one['loss']:.4f}",
            f"{one['perplexity']:.3f}",
            f"{one['word_perplexity']:.2f}" if "word_perplexity" in one else "–",
            f"{100 * one['accuracy']:.1f} %",
        ]
        for name, one in scores.items()
    ]
    return Table("Scores of the best weights", header, rows)


def _samples(run: Writer) -> list[Sample]:
    """What it writes from nothing; the same each time."""
    texts = run.generate("", n=N_SAMPLES, max_new=SAMPLE_TOKENS, seed=0)
    return [Sample("(from nothing)", text) for text in texts]
