"""A run that gives labels to texts, or to pairs of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from regard.core.errors import CheckpointError, DataError
from regard.data.labelled import Labelled, numbered
from regard.evaluation.metrics import accuracy, macro_f1
from regard.runs.evaluation import Evaluation
from regard.runs.given import listed, one_or_many
from regard.runs.kinds.encoder_run import EncoderRun, Texts, Vectors, open_encoder
from regard.runs.labelled import load_labelled
from regard.runs.labels import LABELS, Labels, load_labels
from regard.runs.looking.outcome import Outcome, label
from regard.runs.looking.reading import Laid


class Classified(NamedTuple):
    """A label, and how sure the model is of it."""

    label: str
    probability: float


@dataclass(frozen=True, slots=True, repr=False)
class Classifier(EncoderRun):
    """A trained classifier with all it needs to be used."""

    labels: Labels

    def classify(self, texts: Any, *, with_scores: bool = False) -> Any:
        """The label of a text, or of each of a list: str -> str, list -> list.

        A run that was trained on pairs takes a pair of texts, or a list of pairs; one that was
        imported takes either, and a tuple of two is its pair. With ``with_scores`` each label is a
        ``Classified(label, probability)``.
        """
        single = isinstance(texts, str) or (self._may_be_pair(texts) and _is_pair(texts))
        many = self.inputs([texts] if single else listed(texts))
        found = [self._best(row, with_scores) for row in self.probabilities(many)]
        return found[0] if single else found

    def probabilities(self, texts: Texts) -> Vectors:
        """(n, labels): how likely each label is, in the order of ``labels.names``."""
        return self.log_probs(texts).exp().numpy()

    def log_probs(self, texts: Texts) -> Tensor:
        """As ``probabilities``, in natural logarithms."""
        logits = self.read(self.table(texts), self.model, len(self.labels.names))
        return logits.log_softmax(dim=-1)

    def inputs(self, texts: Sequence[Any]) -> Texts:
        """Texts, or pairs, as this run was trained on; others are refused."""
        either = self.labels.pairs is None and not any(_is_pair(one) for one in texts)
        if self.labels.pairs is False or either:
            return one_or_many(texts)
        for one in texts:
            if not _is_pair(one):
                why = "was trained on pairs" if self.labels.pairs else "is given pairs"
                raise DataError(f"this run {why}: expected two texts, but found {one!r}")
        return [(one[0], one[1]) for one in texts]

    def _best(self, row: Any, with_scores: bool) -> str | Classified:
        number = int(row.argmax())
        label = self.labels.names[number]
        return Classified(label, float(row[number])) if with_scores else label

    @property
    def takes_pairs(self) -> bool | None:
        """Whether it was trained on pairs; None where nobody told, and both are taken."""
        return self.labels.pairs

    def _may_be_pair(self, texts: Any) -> bool:
        """A list of two texts is a pair where there is nothing else, a tuple where both are."""
        return bool(self.labels.pairs) or (self.labels.pairs is None and isinstance(texts, tuple))

    def outcome(self, output: Tensor, laid: Laid) -> Outcome:
        """How likely each label is."""
        return label(output, self.labels.names)

    def evaluate(self, split: str = "test") -> Evaluation:
        """Scores on a split of the data the run was trained with."""
        return self.scored(load_labelled(self.recipe.data, "label").split(split), split)

    def scored(self, examples: Sequence[Labelled], split: str) -> Evaluation:
        """Scores on any examples; the texts of the evaluation are the labels that were given."""
        right = numbered(examples, self.labels.numbers)
        log_probs = self.log_probs(texts_of(examples))
        given = log_probs.argmax(dim=-1).tolist()
        loss = -sum(log_probs[i, number].item() for i, number in enumerate(right)) / len(right)
        scores = {
            "task": self.task,
            "split": split,
            "n": len(examples),
            "accuracy": accuracy(given, right),
            "macro_f1": macro_f1(given, right),
            "loss": loss,
        }
        return Evaluation(scores, [self.labels.names[number] for number in given])

    def facts(self) -> dict[str, Any]:
        """As ``EncoderRun.facts``, with the labels."""
        return {**EncoderRun.facts(self), "labels": list(self.labels.names)}


def texts_of(examples: Sequence[Labelled]) -> Texts:
    """The texts of examples, or their pairs."""
    if examples and examples[0].other is not None:
        return [(one.text, one.other or "") for one in examples]
    return [one.text for one in examples]


def _is_pair(texts: Any) -> bool:
    return (
        isinstance(texts, tuple | list)
        and len(texts) == 2
        and all(isinstance(text, str) for text in texts)
    )


def load_classifier(path: str | Path, *, device: str | None = None) -> Classifier:
    """Open the folder of a classifier. Nothing in it is executed."""
    opened = open_encoder(path, "classification", device)
    labels = load_labels(opened.folder.path)
    known = opened.model.config.n_labels
    if len(labels.names) != known:
        raise CheckpointError(
            f"{opened.folder.path / LABELS} has {len(labels.names)} labels, but the model knows "
            f"{known}: they belong to different runs"
        )
    return Classifier(*opened.parts(), labels)
