"""Classification: a label for a text, or for a pair of texts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch.nn.functional as F
from torch import Tensor
from typing_extensions import override

from regard.core.errors import CheckpointError, DataError
from regard.core.files import parse_json, read_text, write_whole
from regard.data.batch import Batch
from regard.data.records import Corpus, Labelled, numbered
from regard.data.row_batches import labelled_batch
from regard.data.splits import Data
from regard.evaluation.metrics import computed, values
from regard.models.encoder import Encoder
from regard.tasks.base import TASKS, Evaluation, Scoring
from regard.tasks.encoder_tasks import Begin, EncodingTask, PreparedEncoding, with_tables
from regard.tasks.encoding import (
    Chosen,
    EncoderInput,
    EncoderRun,
    Texts,
    Vectors,
    open_encoder,
    texts_of,
)
from regard.tasks.examples import EXAMPLES
from regard.tasks.look import Choice, Prediction, TopChoices
from regard.tasks.opening import TOKENIZER_FILES, listed, one_or_many
from regard.tasks.reading_verbs import CLASSIFY, EMBED, NEAREST
from regard.tasks.verb import Form
from regard.text.settings import TEXT_SETTINGS
from regard.training.distributed import divided
from regard.training.losses import Losses, Objective, cross_entropy

OWN_METRICS = ("accuracy", "macro_f1")
"""Of a validation, beside the loss and what the recipe names."""
LABELS = "labels.json"


@dataclass(frozen=True, slots=True)
class Labels:
    """Names in the order of their numbers."""

    names: tuple[str, ...]
    pairs: bool | None
    """Whether two texts together have a label; None where nobody told, and both are taken."""

    @classmethod
    def of(cls, examples: Iterable[Any]) -> Labels:
        """Those that training shows, in sorted order; the examples are of texts or of pictures."""
        known, pairs = set(), False
        for one in examples:
            assert one.label is not None, "these examples were read without labels"
            known.add(one.label)
            pairs = getattr(one, "other", None) is not None
        return cls(tuple(sorted(known)), pairs)

    @property
    def numbers(self) -> Mapping[str, int]:
        """Name -> number."""
        return {name: number for number, name in enumerate(self.names)}

    def save(self, folder: Path) -> None:
        """Write labels.json."""
        facts = {"labels": list(self.names), "pairs": self.pairs}
        write_whole(folder / LABELS, json.dumps(facts, indent=2, ensure_ascii=False) + "\n")


def load_labels(folder: Path) -> Labels:
    """What ``save`` wrote."""
    path = folder / LABELS
    try:
        facts = parse_json(read_text(path))
    except ValueError:
        facts = None
    known = facts if isinstance(facts, dict) else {}
    names: Any = known.get("labels")
    pairs = known.get("pairs", "untold")
    named = isinstance(names, list) and names and all(isinstance(name, str) for name in names)
    if not named or len({*names}) < len(names) or not isinstance(pairs, bool | None):
        raise CheckpointError(
            f'{path} is damaged: it holds no labels; expected {{"labels": ["…", "…"], "pairs": '
            "true, false or null}, no label twice"
        )
    return Labels(tuple(names), pairs)


def fitting_labels(folder: Path, known: int | None) -> Labels:
    """The labels of a run, which must be as many as its model knows."""
    labels = load_labels(folder)
    if len(labels.names) != known:
        raise CheckpointError(
            f"{folder / LABELS} has {len(labels.names)} labels, but the model knows {known}: they "
            "belong to different runs"
        )
    return labels


class Classified(NamedTuple):
    """A label, and how sure the model is of it."""

    label: str
    probability: float


@dataclass(frozen=True, slots=True, repr=False)
class Classifier(EncoderRun):
    """A trained classifier with all it needs to be used."""

    weighs = True
    records = "label"
    labels: Labels

    def classify(self, texts: Any, *, with_scores: bool = False) -> Any:
        """The label of a text, or of each of a list: str -> str, list -> list.

        A run that was trained on pairs takes a pair of texts, or a list of pairs; one that was
        imported takes either, and a tuple of two is its pair. With ``with_scores`` each label is a
        ``Classified(label, probability)``. Unknown words are told to the logger ``regard``.
        """
        pairs = self.labels.pairs  # a list of two texts is one where nothing else is taken
        may_be_pair = isinstance(texts, tuple) if pairs is None else pairs
        single = isinstance(texts, str) or (may_be_pair and _is_pair(texts))
        many = self.inputs([texts] if single else listed(texts))
        self.warn_of_unknown(*(part for one in many for part in one_or_many(one)))
        found = [self._best(row, with_scores) for row in self.probabilities(many)]
        return found[0] if single else found

    def probabilities(self, texts: Texts) -> Vectors:
        """(n, labels): how likely each label is, in the order of ``labels.names``."""
        return self.log_probs(texts).exp().numpy()

    def log_probs(self, texts: Texts) -> Tensor:
        """In natural logarithms."""
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
    @override
    def takes_pairs(self) -> bool | None:
        return self.labels.pairs

    @override
    def outcome(self, output: Tensor, laid: EncoderInput) -> Prediction:
        """The most probable label, and all of them, of logits (n_labels,)."""
        shares = output.float().softmax(dim=-1).tolist()
        choices = sorted(map(Choice, self.labels.names, shares), key=lambda one: -one.probability)
        return Prediction("label", choices[0].text, (TopChoices(None, tuple(choices)),))

    @override
    def chosen(self, output: Tensor, laid: EncoderInput) -> Chosen:
        best = int(output.argmax())
        return Chosen((self.labels.names[best],), (best,))

    def scored(self, examples: Sequence[Labelled], split: str) -> Evaluation:
        """Scores on any examples; the texts of the evaluation are the labels that were given."""
        right = numbered(examples, self.labels.numbers)
        log_probs = self.log_probs(texts_of(examples))
        given = log_probs.argmax(dim=-1).tolist()
        loss = -sum(log_probs[i, number].item() for i, number in enumerate(right)) / len(right)
        scores = computed((*OWN_METRICS, *self.recipe.train.metrics), given, right) | {"loss": loss}
        names = [self.labels.names[number] for number in given]
        return self.evaluation(split, len(examples), scores, names)

    @override
    def facts(self) -> dict[str, Any]:
        return {**EncoderRun.facts(self), "labels": list(self.labels.names)}


def _is_pair(texts: Any) -> bool:
    two = isinstance(texts, tuple | list) and len(texts) == 2
    return two and all(isinstance(text, str) for text in texts)


class LabelLoss(Objective):
    """Cross-entropy, summed over the texts of a batch."""

    def __init__(self, smoothing: float) -> None:
        self.smoothing = smoothing

    def __call__(self, model: Encoder, batch: Batch) -> Losses:
        """Of a batch."""
        logits = model(*model.inputs(batch.ids, batch.segments))
        loss = cross_entropy(logits, batch.labels, label_smoothing=self.smoothing)
        return Losses.of("cross_entropy", loss, batch.count)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedClassification(PreparedEncoding):
    """Texts with labels, and an encoder that tells them."""

    takes, criteria = "labels", ("loss", *OWN_METRICS)
    collate = staticmethod(labelled_batch)
    labels: Labels

    @property
    @override
    def size(self) -> dict[str, int]:
        texts, words = len(self.train), self.tokenizer.n_vocab
        return {"training texts": texts, "vocabulary": words, "labels": len(self.labels.names)}

    @override
    def objective(self) -> LabelLoss:
        return LabelLoss(self.recipe.train.label_smoothing)

    @override
    def validation(self) -> Scoring:
        """The loss is the plain one, without smoothing."""
        batches = [self.valid_batch(rows) for rows in self.valid_rows()]
        names = (*OWN_METRICS, *self.recipe.train.metrics)

        def scores(model: Encoder) -> Mapping[str, float]:
            def judged(batch: Batch) -> tuple[float, list[int]]:
                logits = model(*model.inputs(batch.ids, batch.segments)).float()
                loss = F.cross_entropy(logits, batch.labels, reduction="sum").item()
                return loss, logits.argmax(dim=-1).tolist()

            losses, given = zip(*divided(batches, judged), strict=True)
            right = [label for batch in batches for label in batch.labels.tolist()]
            return {"loss": sum(losses) / len(right), **values(names, [*chain(*given)], right)}

        return Scoring(scores)

    @override
    def save(self, folder: Path) -> None:
        PreparedEncoding.save(self, folder)
        self.labels.save(folder)


def _same(labels: Labels, folder: Path) -> bool:
    """Whether a run gives these labels, and to what they are given to here."""
    if not (folder / LABELS).exists():
        return False
    old = load_labels(folder)
    return old.names == labels.names and old.pairs in (None, labels.pairs)


class ClassificationTask(EncodingTask):
    """Texts with labels, and an encoder that tells them."""

    name, run = "classification", Classifier
    hub_task = "text-classification"
    verbs = (CLASSIFY, EMBED, NEAREST)
    files = (*TOKENIZER_FILES, LABELS, EXAMPLES)
    heeds = TEXT_SETTINGS | {
        *("data.columns", "train.init", "train.label_smoothing", "train.metrics"),
    }
    smallest: ClassVar[Mapping[str, Any]] = {"n_vocab": 9, "head": "classify", "n_labels": 2}
    head_scores = ("loss", "accuracy")
    well_known = ({"text": "A film that stays with you."},)

    @override
    def prepared(self, data: Data[Any], begun: Path | None, begin: Begin) -> PreparedClassification:
        labels = Labels.of(data.splits["train"]) if begun is None else load_labels(begun)
        if len(labels.names) < 2:
            raise DataError(
                f"all training examples have the label {labels.names[0]!r}; two at least are needed"
            )
        numbers = {
            name: {"labels": np.array(numbered(split, labels.numbers), np.int64)}
            for name, split in data.splits.items()
        }
        fields = begin(
            head="classify",
            n_labels=len(labels.names),
            same_head=partial(_same, labels),
            pairs=bool(labels.pairs),
        )
        return PreparedClassification(
            **with_tables(fields, numbers["train"], numbers["valid"]), labels=labels
        )

    @override
    def load(self, path: str | Path, *, device: str | None = None) -> Classifier:
        folder, recipe, tokenizer, model, place = open_encoder(path, self.name, device)
        labels = fitting_labels(folder.path, model.config.n_labels)
        return Classifier(folder, recipe, tokenizer, model, place, labels)

    @override
    def file_notes(self, run: Classifier, corpus: Corpus[Labelled], name: str) -> list[str]:
        first, pairs = corpus.examples[0], run.labels.pairs
        if pairs is not None and (first.other is not None) != pairs:
            wanted, found = ("two texts", "one") if pairs else ("one text", "two")
            raise DataError(
                f"{first.where}: expected {wanted} with a label, as in training, but found {found}"
            )
        return super().file_notes(run, corpus, name)

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


TASKS.add("classification")(ClassificationTask())
