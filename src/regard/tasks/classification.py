"""Classification: a label for a text, or for a pair of texts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from typing_extensions import override

from regard.core.errors import CheckpointError, DataError
from regard.core.files import write_whole
from regard.data.batch import Batch
from regard.data.examples import Ints
from regard.data.records import Corpus, Labelled, numbered
from regard.data.row_batches import Layout, labelled_batch, ordered_rows, row_stream
from regard.data.splits import load_records
from regard.data.stream import Stream
from regard.evaluation.metrics import computed, values
from regard.models.encoder import Encoder
from regard.tasks.base import TASKS, Evaluation, Form, Scoring
from regard.tasks.encoder_training import EncoderSpec, PreparedEncoding, all_texts, begin, parts
from regard.tasks.encoding import (
    EncoderInput,
    EncoderRun,
    EncodingTask,
    Texts,
    Vectors,
    open_encoder,
    texts_of,
)
from regard.tasks.look import Candidates, Choice, Prediction
from regard.tasks.opening import listed, one_or_many
from regard.tasks.recipe import Recipe
from regard.tasks.verbs import CLASSIFY, EMBED, NEAREST
from regard.training.distributed import unwrapped
from regard.training.losses import Losses, StatelessObjective, cross_entropy

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
    def of(cls, examples: Iterable[Labelled]) -> Labels:
        """Those that training shows, in sorted order."""
        known, pairs = set(), False
        for one in examples:
            assert one.label is not None, "these examples were read without labels"
            known.add(one.label)
            pairs = one.other is not None
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
        facts = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, RecursionError):
        facts = None
    known = facts if isinstance(facts, dict) else {}
    names, pairs = known.get("labels"), known.get("pairs", "untold")
    if names is None or not _are_names(names) or not (pairs is None or isinstance(pairs, bool)):
        raise CheckpointError(
            f'{path} is damaged: it holds no labels; expected {{"labels": ["…", "…"], "pairs": '
            "true, false or null}, no label twice"
        )
    return Labels(tuple(names), pairs)


def _are_names(names: Any) -> bool:
    strings = isinstance(names, list) and all(isinstance(name, str) for name in names)
    return strings and len({*names}) == len(names) > 0


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
    def takes_pairs(self) -> bool | None:
        """Whether it was trained on pairs; None where nobody told, and both are taken."""
        return self.labels.pairs

    def _may_be_pair(self, texts: Any) -> bool:
        """A list of two texts is a pair where there is nothing else, a tuple where both are."""
        return bool(self.labels.pairs) or (self.labels.pairs is None and isinstance(texts, tuple))

    def outcome(self, output: Tensor, laid: EncoderInput) -> Prediction:
        """How likely each label is."""
        return label(output, self.labels.names)

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
        """With the labels."""
        return {**EncoderRun.facts(self), "labels": list(self.labels.names)}


def _is_pair(texts: Any) -> bool:
    return (
        isinstance(texts, tuple | list)
        and len(texts) == 2
        and all(isinstance(text, str) for text in texts)
    )


def load_classifier(path: str | Path, *, device: str | None = None) -> Classifier:
    """Open the folder of a classifier. Nothing in it is executed."""
    folder, recipe, tokenizer, model, place = open_encoder(path, "classification", device)
    labels = load_labels(folder.path)
    known = model.config.n_labels
    if len(labels.names) != known:
        raise CheckpointError(
            f"{folder.path / LABELS} has {len(labels.names)} labels, but the model knows {known}: "
            "they belong to different runs"
        )
    return Classifier(folder, recipe, tokenizer, model, place, labels)


def label(logits: Tensor, names: Sequence[str]) -> Prediction:
    """Logits (n_labels,) -> the most probable label, and all of them."""
    shares = logits.float().softmax(dim=-1).tolist()
    ordered = sorted(map(Choice, names, shares), key=lambda one: -one.probability)
    return Prediction("label", ordered[0].text, (Candidates(None, tuple(ordered)),))


class LabelLoss(StatelessObjective):
    """Cross-entropy, summed over the texts of a batch."""

    def __init__(self, smoothing: float) -> None:
        self.smoothing = smoothing

    def __call__(self, model: Encoder, batch: Batch) -> Losses:
        """Of a batch."""
        logits = model(*unwrapped(model).inputs(batch.ids, batch.segments))
        loss = cross_entropy(logits, batch.labels, label_smoothing=self.smoothing)
        return Losses.of("cross_entropy", loss, batch.count)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedClassification(PreparedEncoding):
    """Texts with labels, and an encoder that tells them."""

    takes = "labels"
    labels: Labels
    train_labels: Ints
    valid_labels: Ints

    @property
    @override
    def size(self) -> dict[str, int]:
        texts, words = len(self.train), self.tokenizer.n_vocab
        return {"training texts": texts, "vocabulary": words, "labels": len(self.labels.names)}

    @property
    @override
    def criteria(self) -> tuple[str, ...]:
        return ("loss", *OWN_METRICS)

    @override
    def stream(self) -> Stream:
        settings = self.recipe.train
        return row_stream(
            labelled_batch,
            self.train,
            self.layout,
            batch_tokens=settings.batch_tokens,
            seed=settings.seed,
            labels=self.train_labels,
        )

    @override
    def objective(self) -> LabelLoss:
        return LabelLoss(self.recipe.train.label_smoothing)

    @override
    def validation(self) -> Scoring:
        """The loss is the plain one, without smoothing."""
        parts = ordered_rows(self.valid, self.layout, self.recipe.train.batch_tokens)
        batches = [
            labelled_batch(self.valid, rows, layout=self.layout, labels=self.valid_labels)
            for rows in parts
        ]

        def scores(model: Encoder) -> Mapping[str, float]:
            loss, given, right = 0.0, [], []
            for batch in (one.to(self.device) for one in batches):
                logits = model(*model.inputs(batch.ids, batch.segments)).float()
                loss += F.cross_entropy(logits, batch.labels, reduction="sum").item()
                given += logits.argmax(dim=-1).tolist()
                right += batch.labels.tolist()
            names = (*OWN_METRICS, *self.recipe.train.metrics)
            return {"loss": loss / len(right), **values(names, given, right)}

        return Scoring(scores)

    @override
    def save(self, folder: Path) -> None:
        PreparedEncoding.save(self, folder)
        self.labels.save(folder)


def prepare_classification(
    recipe: Recipe, device: torch.device, *, begun: Path | None = None, cache: Path | None = None
) -> PreparedClassification:
    """Load or make the data, number its labels, train a tokenizer unless there is one.

    Draws from torch's default generator, which is left where the first training step begins.
    """
    del cache  # texts with labels are few
    data = load_records(recipe.data, "label")
    examples = data.splits["train"]
    labels = Labels.of(examples) if begun is None else load_labels(begun)
    if len(labels.names) < 2:
        raise DataError(
            f"all training examples have the label {labels.names[0]!r}; two at least are needed"
        )
    numbers = {name: numbered(split, labels.numbers) for name, split in data.splits.items()}
    wish = EncoderSpec(
        recipe,
        "classify",
        len(labels.names),
        same_head=lambda folder: _same(folder, labels),
        pairs=bool(labels.pairs),
    )
    start = begin(wish, lambda: all_texts(examples), device, begun)
    layout = Layout(start.tokenizer.specials, start.config.max_len)
    return PreparedClassification(
        **parts(recipe, data, start, layout, device),
        labels=labels,
        train_labels=np.array(numbers["train"], np.int64),
        valid_labels=np.array(numbers["valid"], np.int64),
    )


def _same(folder: Path, labels: Labels) -> bool:
    """Whether a run gives these labels, and to what they are given to here."""
    if not (folder / LABELS).exists():
        return False
    old = load_labels(folder)
    return old.names == labels.names and old.pairs in (None, labels.pairs)


class ClassificationTask(EncodingTask):
    """Texts with labels, and an encoder that tells them."""

    name = "classification"
    verbs = (CLASSIFY, EMBED, NEAREST)
    heeds = frozenset({"data.columns", "train.label_smoothing", "train.metrics"})
    smallest: ClassVar[Mapping[str, Any]] = {"n_vocab": 9, "head": "classify", "n_labels": 2}
    wanted = "label"
    head_scores = ("loss", "accuracy")
    well_known = ({"text": "A film that stays with you."},)

    prepare = staticmethod(prepare_classification)
    load = staticmethod(load_classifier)

    @override
    def check_file(self, run: Classifier, corpus: Corpus[Labelled]) -> Texts:
        first = corpus.examples[0]
        if run.labels.pairs is not None and (first.other is not None) != run.labels.pairs:
            wanted, found = ("two texts", "one") if run.labels.pairs else ("one text", "two")
            raise DataError(
                f"{first.where}: expected {wanted} with a label, as in training, but found {found}"
            )
        return texts_of(corpus.examples)

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
