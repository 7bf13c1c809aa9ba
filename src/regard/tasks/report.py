"""A run's page for people: what it learned, how, at what cost, and some of its answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from regard.checkpoints.run_folder import load_scores
from regard.core import numbers
from regard.core.errors import RegardError
from regard.core.files import write_whole
from regard.evaluation.metrics import METRICS, parts_of, score_text, titles
from regard.evaluation.saliency import looking_rows
from regard.models.presets import n_parameters
from regard.tasks.drawing import drawing_of_run
from regard.tasks.examples import PageExample
from regard.tasks.film import film_strip
from regard.training.metrics import read_metrics
from regard.visual.charts import curves
from regard.visual.drawing_svg import drawing_svg
from regard.visual.look_files import look_svg
from regard.visual.payload import PAIR_SEPARATOR, Selected
from regard.visual.report import Looked, Sample, report_page
from regard.visual.svg import element
from regard.visual.tables import Table, table_html

Scores = Mapping[str, Mapping[str, Any]]
"""Name of a test set -> what an evaluation found there."""
GLANCE = 120
"""Letters of a text whose attention is shown in a report."""
Lines = Sequence[Mapping[str, Any]]
"""Of metrics.jsonl."""
PERCENT = {"share": 100.0, "correlation": 100.0, "points": 1.0}
"""Units that are drawn in one picture, and what brings them there."""


def write_report(
    judged: Any, facts: Mapping[str, Any], task: Any, examples: Iterable[PageExample] = ()
) -> None:
    """Write report.html of a ``JudgedRun`` of a ``Task``; ``facts`` are those of scores.json.

    ``examples`` are held-out texts, one of which is looked at; runs of pictures bring figures.
    """
    run, seen, measured = judged.run, task.unit.many, facts["measured"]
    lines, scores = read_metrics(run.folder.metrics), facts["scores"]
    seen_at = [attention_table(scores), looking_table(scores)]
    tables = [score_table(scores), parts_table(scores), *seen_at, signatures(scores)]
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
            *learning_curves(lines, run.recipe, task),
            _curve({"learning rate": rates}, "Schedule", "lr"),
            _curve({"speed": speeds}, "Speed", f"{seen} a second"),
            *judged.figures,
        ],
        tables=[*(table for table in tables if table.rows), cost_table(facts)],
        samples=[Sample(*one) for one in judged.samples],
        looks=[
            *([] if judged.figures else looked(run, task, examples)),
            *film_strip(run.folder.film),
        ],
        drawing=drawing_svg(drawing_of_run(run)),
        settings=run.folder.settings.read_text(encoding="utf-8"),
    )
    write_whole(run.folder.report, page)


def looked(run: Any, task: Any, examples: Iterable[PageExample]) -> list[Looked]:
    """Where a run looked in the longest of some held-out texts that can be read at a glance.

    Nothing where there is none, or where the run does not attend.
    """
    readable = [one for one in examples if sum(map(len, one.values())) <= GLANCE]
    for one in sorted(readable, key=lambda one: -len(one["text"])):
        try:
            look = task.explain(run, one["text"], other=one.get("other"))
        except RegardError:  # another text goes in beside this one, and is not told
            continue
        if not look.attentions:
            return []
        said = f" → {look.answer}" if look.answer else ""
        told = f"While it read a held-out text: {look.source.replace(PAIR_SEPARATOR, ' | ')}{said}"
        return [Looked(told, look_svg(look.payload(), Selected()))]
    return []


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


def learning_curves(lines: Lines, recipe: Any, task: Any) -> list[str]:
    """How the training of a ``Recipe`` went: its loss, and the scores of its validations."""
    smoothed = " (smoothed)" if recipe.train.label_smoothing > 0 else ""
    losses = {
        f"training{smoothed}": _series(lines, "train", "loss"),
        "validation": _series(lines, "valid", "loss"),
    }
    measure = task.loss_unit.format(task.unit.one)
    return [_curve(losses, "Loss", measure), *validation_curves(lines)]


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
    parts = ((bounded, "%", (0, 100)), (others, "perplexity", (0,)))
    return [_curve(shown, "Validation", label, reach) for shown, label, reach in parts if shown]


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
        [
            name,
            title,
            *(_told(key, one.get(f"{key}{end}")) for end in ("", "_shuffled", "_rule")),
            by,
        ]
        for name, one in scores.items()
        for key, title in titles(one).items()
        if (by := one.get(f"{key}_by")) is not None
    ]
    header = ["Test set", "Measure", "Attention", "Shuffled", "Blind rule", "Chosen on valid"]
    return Table("What attention finds", header, rows)


def _told(key: str, value: float | None) -> str:
    """Runs from before have no rule beside their scores."""
    return "–" if value is None else score_text(key, value)


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
    return Table(f"Cost ({facts['ended']})", ["Of", "Measured", "Expected"], rows)


def _series(lines: Lines, kind: str, name: str) -> list[tuple[float, float]]:
    """A number by step, from the lines of one kind."""
    return [(x["step"], x[name]) for x in lines if x["kind"] == kind and name in x]


def _curve(
    series: Mapping[str, list[tuple[float, float]]],
    title: str,
    label: str,
    reach: Sequence[float] = (0,),
) -> str:
    """A chart by steps whose y axis is whole: it begins with 0."""
    return curves(series, title=title, x_label="step", y_label=label, reach=reach)


def _texts(scores: Mapping[str, Any], names: Iterable[str]) -> list[str]:
    return [score_text(name, scores.get(name)) for name in names]


def _flops(value: float) -> str:
    return f"{value:.3g}"
