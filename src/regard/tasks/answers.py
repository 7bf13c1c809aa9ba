"""Answers: questions about texts, answered with words of the text."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from typing_extensions import override

from regard.runs.kinds.answerer import Answerer, load_answerer
from regard.runs.own_files import score_answers
from regard.runs.questions import QuestionData, load_questions
from regard.runs.tasks.answering import PreparedAnswers, prepare_answers
from regard.tasks.base import TASKS, Evaluation, Form
from regard.tasks.encoding import EncodingTask
from regard.tasks.verbs import ANSWER, EMBED, NEAREST


class Answers(EncodingTask):
    """Questions about texts, and an encoder that finds the answers."""

    name = "answers"
    verbs = (ANSWER, EMBED, NEAREST)
    heeds = frozenset({"data.columns", "train.label_smoothing"})
    smallest: ClassVar[Mapping[str, Any]] = {"n_vocab": 9, "head": "spans"}
    head_scores = ("exact_match", "f1")
    well_known = (
        {
            "text": "Who wrote the letter?",
            "other": "In the morning Mary wrote a letter to her brother in Paris.",
        },
    )

    @override
    def prepare(self, *args: Any, **more: Any) -> PreparedAnswers:
        return prepare_answers(*args, **more)

    @override
    def load(self, path: str | Path, *, device: str | None = None) -> Answerer:
        return load_answerer(path, device=device)

    @override
    def score_file(self, run: Answerer, path: Path, **options: Any) -> Evaluation:
        self.check_options(options)
        return score_answers(run, path)

    @override
    def form(self, run: Answerer) -> Form:
        return Form(
            label="A question",
            other="The text that holds the answer",
            go="Answer",
            answer="Answer",
            about="answers questions",
            stands="The answer stands.",
            view="span",
        )

    @override
    def data(self, run: Answerer) -> QuestionData:
        return load_questions(run.recipe.data)


TASKS.add("answers")(Answers())
