"""Classification: a label for a text, or for a pair of texts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from typing_extensions import override

from regard.runs.kinds.classifier import Classifier, load_classifier
from regard.runs.own_files import score_labels
from regard.runs.tasks.classification import PreparedClassification, prepare_classification
from regard.tasks.base import TASKS, Evaluation, Form
from regard.tasks.encoding import EncodingTask
from regard.tasks.verbs import CLASSIFY, EMBED, NEAREST


class Classification(EncodingTask):
    """Texts with labels, and an encoder that tells them."""

    name = "classification"
    verbs = (CLASSIFY, EMBED, NEAREST)
    heeds = frozenset({"data.columns", "train.label_smoothing"})
    smallest: ClassVar[Mapping[str, Any]] = {"n_vocab": 9, "head": "classify", "n_labels": 2}
    wanted = "label"
    head_scores = ("loss", "accuracy")
    well_known = ({"text": "A film that stays with you."},)

    @override
    def prepare(self, *args: Any, **more: Any) -> PreparedClassification:
        return prepare_classification(*args, **more)

    @override
    def load(self, path: str | Path, *, device: str | None = None) -> Classifier:
        return load_classifier(path, device=device)

    @override
    def score_file(self, run: Classifier, path: Path, **options: Any) -> Evaluation:
        self.check_options(options)
        return score_labels(run, path)

    @override
    def form(self, run: Classifier) -> Form:
        pairs = bool(run.takes_pairs)
        return Form(
            label="The first text" if pairs else "A text",
            other="The second text" if pairs else "",
            go="Classify",
            answer="Label",
            about=f"{len(run.labels.names)} labels",
            stands="The label stands.",
            view="labels",
        )


TASKS.add("classification")(Classification())
