"""A run's page for people: what it learned, how, at what cost, and some of its answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from regard.checkpoints.run_folder import load_scores
from regard.core import numbers
from regard.core.files import write_whole
from regard.evaluation.metrics import METRICS, parts_of, score_text, titles
from regard.evaluation.saliency import looking_rows
from regard.models.presets import n_parameters
from regard.training.metrics import read_metrics
from regard.visual.charts import curves
from regard.visual.report import Sample, report_page
from regard.visual.svg import element
from regard.visual.tables import Table, table_html

Scores = Mapping[str, Mapping[str, Any]]
"""Name of a test set -> what an evaluation found there."""
Lines = Sequence[Mapping[str, Any]]
"""Of metrics.jsonl."""
PERCENT = {"share": 100.0, "correlation": 100.0, "points": 1.0}
"""Units that are drawn in one picture, and what brings them there."""


def write_report(judged: Any, facts: Mapping[str, Any], task: Any) -> None:
    """Write report.html of a ``JudgedRun`` of a ``Task``; ``facts`` are those of scores.json."""
    run, seen, measured = judged.run, task.unit.many, facts["measured"]
    lines, scores = read_metrics(run.folder.metrics), facts["scores"]
    looked = [attention_table(scores), looking_table(scores)]
    tables = [score_table(scores), parts_table(scores), *looked, signatures(scores)]
    smoothed = " (smoothed)" if run.recipe.train.label_smoothing > 0 else ""
    losses = {
        f"training{smoothed}": _series(lines, "train", "loss"),
        "validation": _series(lines, "valid", "loss"),
    }
    measure = task.loss_unit.format(task.unit.one)
    rates, speeds = _series(lines, "train", "lr"), _series(lines, "train", "tokens_per_second")
    page = report_page(
        f"{run.recipe.model.preset}: {run.folder.path.name}",
        facts=[
            ("Parameters", f"{n_parameters(run.model):,}"),
            ("Training FLOPs", _flops(measured["flops"])),
            ("Time", numbers.measured(measured["seconds"])),
            ("Steps", f"{measured['steps']:,}"),
            ("Best weights at step", f"{measured['best_step']:,}"),
            (f"{seen.capitalize()} seen", f"{measured['tokens']:,}"),
        ],
        curves=[
            _curve(losses, "Loss", f"{measure}, log scale", log_y=True),
            *validation_curves(lines),
            _curve({"learning rate": rates}, "Schedule", "lr"),
            _curve({"speed": speeds}, "Speed", f"{seen} a second"),
            *judged.figures,
        ],
        tables=[*(table for table in tables if table.rows), cost_table(facts)],
        samples=[Sample(*one) for one in judged.samples],
        settings=run.folder.settings.read_text(encoding="utf-8"),
    )
    write_whole(run.folder.report, page)


def evaluation_html(scores: Mapping[str, Any], notes: Sequence[str] = ()) -> str:
    """One evaluation in a notebook: the tables of a report that have something to say."""
    by_set = {str(scores["split"]): scores}
    made = (score_table, parts_table, attention_table, looking_table, signatures)
    tables = [one for one in (make(by_set) for make in made) if one.rows]
    return "".join([*map(table_html, tables), *(element("p", line) for line in notes)])


def run_html(run: Any) -> str:
    """A run in a notebook: what it is and, where its training came to an end, its scores."""
    facts = {
        "Folder": str(run.folder.path),
        "System": str(run.recipe.model.preset),
        "Task": run.kind,
        "Parameters": f"{n_parameters(run.model):,}",
        "Device": str(run.device),
    }
    tables = [Table(type(run).__name__, ["", ""], [[name, told] for name, told in facts.items()])]
    if run.folder.scores.exists() and (scores := load_scores(run.folder).get("scores")):
        tables.append(score_table(scores))
    return "".join(map(table_html, tables))


def validation_curves(lines: Lines) -> list[str]:
    """Scores in per cent in one picture; perplexities in another, where there are any."""
    found = titles({key: 0 for line in lines if line["kind"] == "valid" for key in line})
    bounded = {
        title: [(x, factor * y) for x, y in _series(lines, "valid", name)]
        for name, title in found.items()
        if (factor := PERCENT.get(METRICS[name].unit))
    }
    others = {
        title: _series(lines, "valid", name)
        for name, title in found.items()
        if METRICS[name].unit == "perplexity"
    }
    parts = ((bounded, "%"), (others, "perplexity"))
    return [_curve(shown, "Validation", label) for shown, label in parts if shown]


def score_table(scores: Scores) -> Table:
    """A row a test set and a column a metric; those of attention have a table of their own."""
    columns = titles({key: 0 for one in scores.values() for key in one if f"{key}_by" not in one})
    rows = []
    for name, one in scores.items():
        rows.append([name, f"{one['n']:,}", *_texts(one, columns)])
        for tag, part in parts_of(one).items():
            rows.append([f"{name}: {tag}", f"{part['n']:,}", *_texts(part, columns)])
    header = ["Test set", "n", *columns.values()]
    return Table("Scores of the best weights", header, rows)


def parts_table(scores: Scores) -> Table:
    """Tasks that are written as texts: what was chosen, what was written."""
    parts = [
        (name, test_set, part)
        for test_set, one in scores.items()
        for name, part in one.get("parts", {}).items()
    ]
    columns = titles({key: 0 for _, _, part in parts for key in part})
    header = ["Task", "Test set", "n", *columns.values()]
    rows = [
        [name, test_set, f"{part['n']:,}", *_texts(part, columns)] for name, test_set, part in parts
    ]
    return Table("Answers, as texts to go on with", header, rows)


def attention_table(scores: Scores) -> Table:
    """What attention finds, chosen on valid; chance beside it."""
    rows = [
        [name, title, score_text(key, one[key]), score_text(key, one[f"{key}_shuffled"]), by]
        for name, one in scores.items()
        for key, title in titles(one).items()
        if (by := one.get(f"{key}_by")) is not None
    ]
    header = ["Test set", "Measure", "Attention", "Shuffled", "Chosen on valid"]
    return Table("What attention finds", header, rows)


def looking_table(scores: Scores) -> Table:
    """Where in pictures attention looks; what knows nothing of the question beside it."""
    rows = [
        [name, f"{one['looking']['n']:,}", measure, *(f"{value:.3f}" for value in told)]
        for name, one in scores.items()
        if "looking" in one
        for measure, *told in looking_rows(one["looking"])
    ]
    header = ["Test set", "n", "Measure", "Attention", "Shuffled", "Centre"]
    return Table("Where attention looks, beside the objects that are meant", header, rows)


def signatures(scores: Scores) -> Table:
    """How the scores were computed, where others compute them otherwise."""
    one = next(iter(scores.values()), {})
    ending = "_signature"
    rows = [
        [METRICS[name].title, value]
        for key, value in one.items()
        if key.endswith(ending) and (name := key.removesuffix(ending)) in METRICS
    ]
    return Table("How the scores were computed", ["Score", "Signature"], rows)


def cost_table(facts: Mapping[str, Any]) -> Table:
    """What the run cost, beside what was expected of it before the first step."""
    expected, measured = facts["estimate"] or {}, facts["measured"]
    kinds = (
        ("FLOPs", "flops", _flops),
        ("Time", "seconds", numbers.measured),
        ("Memory", "memory_bytes", lambda value: f"{value / 2**30:.2f} GiB"),
    )
    rows = []
    for name, key, shown in kinds:
        before = "unknown" if expected.get(key) is None else shown(expected[key])
        rows.append([name, shown(measured[key]), before])
    return Table(f"Cost ({facts['ended']})", ["", "Measured", "Expected"], rows)


def _series(lines: Lines, kind: str, name: str) -> list[tuple[float, float]]:
    """A number by step, from the lines of one kind."""
    return [(x["step"], x[name]) for x in lines if x["kind"] == kind and name in x]


def _curve(
    series: Mapping[str, list[tuple[float, float]]], title: str, label: str, log_y: bool = False
) -> str:
    return curves(series, title=title, x_label="step", y_label=label, log_y=log_y)


def _texts(scores: Mapping[str, Any], names: Iterable[str]) -> list[str]:
    return [score_text(name, scores.get(name)) for name in names]


def _flops(value: float) -> str:
    return f"{value:.3g}"
