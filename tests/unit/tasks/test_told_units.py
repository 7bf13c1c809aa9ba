"""What a training counts: its report and its lines name the very thing that was learned from."""

import pytest
from encoders import settings
from text_runs import KINDS, WRITE, language, short_run

from regard.runs.progress import described
from regard.tasks.base import TASKS
from regard.tasks.recipe import recipe_from

COUNTED = {
    "classification": ("texts", "nats per text"),
    "pairs": ("texts", "nats per text"),
    "similarity": ("pairs", "loss"),
    "answers": ("texts", "nats per text"),
    "masked": ("guesses", "nats per guess"),
    "language": ("tokens", "nats per token"),
}
LINE = {"kind": "train", "step": 3, "loss": 0.5, "tokens_per_second": 12.0, "lr": 0.1, "seconds": 1}


@pytest.mark.parametrize("kind", KINDS)
def test_a_report_counts_what_was_learned_from(tmp_path, kind):
    many, measure = COUNTED[kind]
    page = (short_run(kind, tmp_path) / "report.html").read_text()
    assert f"{many.capitalize()} seen" in page
    assert measure in page
    assert f"{many} a second" in page
    assert ("tokens a second" in page) == (kind == "language")


@pytest.mark.parametrize("kind", KINDS)
def test_a_line_of_a_training_counts_what_was_learned_from(tmp_path, kind):
    task = "classification" if kind == "pairs" else kind
    raw = language(tmp_path) if kind == "language" else settings(task, tmp_path, WRITE[kind])
    unit = TASKS[recipe_from(raw).task].unit
    assert f"12 {COUNTED[kind][0]}/s" in described(LINE, unit)
