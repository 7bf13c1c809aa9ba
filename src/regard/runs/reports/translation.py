"""report.html: what a run learned, how, and at what cost, for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from regard.core.files import write_whole
from regard.runs.data import Data
from regard.runs.evaluation import Evaluation
from regard.runs.kinds.translator import Run
from regard.runs.reports.parts import (
    Metrics,
    cost_table,
    headline,
    loss_curve,
    pace_curves,
    series,
)
from regard.runs.translation import VALID_SENTENCES
from regard.training.metrics import read_metrics
from regard.visual.charts import curves
from regard.visual.report import Sample, report_page
from regard.visual.tables import Table

N_SAMPLES = 8


def write_report(
    run: Run, data: Data, evaluations: Mapping[str, Evaluation], facts: Mapping[str, Any]
) -> None:
    """Make the page from the metrics, the scores and the translations of the test sets."""
    page = report_page(
        f"{run.recipe.model.preset}: {run.folder.path.name}",
        facts=headline(run.model, facts),
        curves=_curves(
            read_metrics(run.folder.metrics), smoothed=run.recipe.train.label_smoothing > 0
        ),
        tables=_tables(run, facts),
        samples=_samples(data, evaluations),
        settings=run.folder.settings.read_text(encoding="utf-8"),
    )
    write_whole(run.folder.report, page)


def _tables(run: Run, facts: Mapping[str, Any]) -> list[Table]:
    scores = facts["scores"]
    if not scores:
        return [cost_table(facts)]
    attention = _attention(scores)
    return [
        _scores(scores, run.recipe.decode.beam),
        *([attention] if attention.rows else []),
        _signatures(scores),
        cost_table(facts),
    ]


def _curves(lines: Metrics, *, smoothed: bool) -> list[str]:
    exact = {"exact match": [(x, 100 * y) for x, y in series(lines, "valid", "exact_match")]}
    return [
        loss_curve(lines, title="Loss as trained (smoothed)" if smoothed else "Loss"),
        curves(
            {"BLEU": series(lines, "valid", "bleu"), **exact},
            title=f"Validation: greedy, {VALID_SENTENCES} sentences at most",
            x_label="step",
            y_label="BLEU, %",
        ),
        *pace_curves(lines),
    ]


def _scores(scores: Mapping[str, Mapping[str, Any]], beam: int) -> Table:
    header = ["Test set", "Sentences", "Exact match", "BLEU", "chrF", "Perplexity"]
    rows = []
    for name, one in scores.items():
        numbers = [f"{one['bleu']:.2f}", f"{one['chrf']:.2f}", _perplexity(one)]
        rows.append([name, str(one["n"]), f"{100 * one['exact_match']:.1f} %", *numbers])
        for tag, part in one.get("exact_match_by_tag", {}).items():
            exact = f"{100 * part['exact_match']:.1f} %"
            rows.append([f"{name}: {tag}", str(part["n"]), exact, "", "", ""])
    search = "greedy" if beam == 1 else f"beam {beam}"
    return Table(f"Scores of the best weights ({search})", header, rows)


def _perplexity(scores: Mapping[str, Any]) -> str:
    return f"{scores['perplexity']:.3f}" if "perplexity" in scores else "–"


def _attention(scores: Mapping[str, Mapping[str, Any]]) -> Table:
    """What attention finds, chosen on valid; chance beside it."""
    rows = []
    for name, one in scores.items():
        for key, title in (("aer", "alignment error"), ("antecedent_accuracy", "antecedent found")):
            if key in one:
                shares = [f"{100 * one[key]:.1f} %", f"{100 * one[key + '_shuffled']:.1f} %"]
                rows.append([name, title, *shares, one[key + "_by"]])
    header = ["Test set", "Measure", "Attention", "Shuffled", "Chosen on valid"]
    return Table("What attention finds", header, rows)


def _signatures(scores: Mapping[str, Mapping[str, Any]]) -> Table:
    one = next(iter(scores.values()))
    rows = [["BLEU", one["bleu_signature"]], ["chrF", one["chrf_signature"]]]
    return Table("How the scores were computed", ["Score", "Signature"], rows)


def _samples(data: Data, evaluations: Mapping[str, Evaluation]) -> list[Sample]:
    samples: list[Sample] = []
    for name, evaluation in evaluations.items():
        pairs = zip(data.splits[name], evaluation.outputs, strict=True)
        made = [Sample(pair.source, text, pair.target) for pair, text in pairs]
        wrong = [one for one in made if one.output != one.reference][:2]
        samples += [*wrong, *(one for one in made[:4] if one not in wrong)][: N_SAMPLES // 2]
    return samples[:N_SAMPLES]
