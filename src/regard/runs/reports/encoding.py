"""report.html of an encoder: what it learned, how, and at what cost, for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from regard.core.files import write_whole
from regard.data.labelled import Labelled
from regard.runs.evaluation import Evaluation
from regard.runs.kinds.encoder_run import EncoderRun
from regard.runs.labelled import LabelledData
from regard.runs.reports.parts import cost_table, headline, loss_curve, pace_curves, series
from regard.runs.units import unit_of
from regard.training.metrics import read_metrics
from regard.visual.charts import curves
from regard.visual.report import Sample, report_page
from regard.visual.tables import Table

N_SAMPLES = 8
CURVES = {
    "accuracy": "accuracy",
    "exact_match": "exact match",
    "f1": "F1",
    "macro_f1": "macro F1",
    "spearman": "Spearman",
    "pearson": "Pearson",
}
"""Scores that lie between 0 and 1, and what they are called."""
_NUMBERS = {**CURVES, "perplexity": "perplexity", "loss": "loss"}


def write_encoding_report(
    run: EncoderRun,
    data: LabelledData,
    evaluations: Mapping[str, Evaluation],
    facts: Mapping[str, Any],
) -> None:
    """Make the page from the metrics, the scores and some answers."""
    lines, unit = read_metrics(run.folder.metrics), unit_of(run.task)
    measure = "loss" if run.task == "similarity" else f"nats a {unit.one}"  # cosines are no nats
    found = {name: series(lines, "valid", key) for key, name in CURVES.items()}
    shown = {name: points for name, points in found.items() if points}
    page = report_page(
        f"{run.recipe.model.preset}: {run.folder.path.name}",
        facts=headline(run.model, facts, seen=unit.many),
        curves=[
            loss_curve(lines, measure=measure),
            curves(shown, title="Validation", x_label="step", y_label="1 is the best"),
            *pace_curves(lines, seen=unit.many),
        ],
        tables=[*([_scores(facts["scores"])] if facts["scores"] else []), cost_table(facts)],
        samples=_samples(data, evaluations),
        settings=run.folder.settings.read_text(encoding="utf-8"),
    )
    write_whole(run.folder.report, page)


def _scores(scores: Mapping[str, Mapping[str, Any]]) -> Table:
    keys = [key for key in _NUMBERS if any(key in one for one in scores.values())]
    rows = [
        [name, f"{one['n']:,}", *(f"{one[key]:.4f}" if key in one else "–" for key in keys)]
        for name, one in scores.items()
    ]
    header = ["Test set", "Texts", *(_NUMBERS[key] for key in keys)]
    return Table("Scores of the best weights", header, rows)


def _samples(data: LabelledData, evaluations: Mapping[str, Evaluation]) -> list[Sample]:
    """Answers that are wrong first."""
    made = [
        Sample(_text(one), answer, _wanted(one))
        for name, evaluation in evaluations.items()
        for one, answer in zip(data.split(name), evaluation.outputs, strict=False)
    ]
    return sorted(made, key=lambda one: one.output == one.reference)[:N_SAMPLES]


def _text(example: Labelled) -> str:
    return example.text if example.other is None else f"{example.text} | {example.other}"


def _wanted(example: Labelled) -> str | None:
    return example.label if example.score is None else f"{example.score:g}"
