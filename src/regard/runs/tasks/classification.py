"""A classifier before its first step: from a recipe to all that training needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from regard.core.errors import DataError
from regard.data.batch import Batch
from regard.data.examples import Ints
from regard.data.labelled import numbered
from regard.data.row_batches import Layout, labelled_batch, ordered_rows, row_stream
from regard.data.stream import Stream
from regard.evaluation.metrics import accuracy, macro_f1
from regard.models.encoder import Encoder
from regard.recipes.recipe import Recipe
from regard.runs.kinds.classifier import load_classifier
from regard.runs.labelled import load_labelled
from regard.runs.labels import LABELS, Labels, load_labels
from regard.runs.prepared import Scoring
from regard.runs.tasks.beginning import Wish, begin
from regard.runs.tasks.encoding import PreparedEncoding, all_texts, parts
from regard.training.distributed import unwrapped
from regard.training.losses import Losses, StatelessObjective, cross_entropy


class LabelLoss(StatelessObjective):
    """Cross-entropy, summed over the texts of a batch."""

    def __init__(self, smoothing: float) -> None:
        self.smoothing = smoothing

    def __call__(self, model: Encoder, batch: Batch) -> Losses:
        """Of a batch."""
        logits = model(*unwrapped(model).inputs(batch.ids, batch.segments))
        loss = cross_entropy(logits, batch.labels, label_smoothing=self.smoothing)
        return Losses.of("cross_entropy", loss, batch.n_target_tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedClassification(PreparedEncoding):
    """Texts with labels, and an encoder that tells them."""

    labels: Labels
    train_labels: Ints
    valid_labels: Ints

    @property
    def size(self) -> dict[str, int]:
        """As ``Prepared.size``."""
        texts, words = len(self.train), self.tokenizer.n_vocab
        return {"training texts": texts, "vocabulary": words, "labels": len(self.labels.names)}

    @property
    def criteria(self) -> tuple[str, ...]:
        """As ``Prepared.criteria``."""
        return ("loss", "accuracy")

    def stream(self) -> Stream:
        """As ``Prepared.stream``."""
        settings = self.recipe.train
        return row_stream(
            labelled_batch,
            self.train,
            self.layout,
            batch_tokens=settings.batch_tokens,
            seed=settings.seed,
            labels=self.train_labels,
        )

    def objective(self) -> LabelLoss:
        """As ``Prepared.objective``."""
        return LabelLoss(self.recipe.train.label_smoothing)

    def validation(self) -> Scoring:
        """As ``Prepared.validation``; the loss is the plain one, without smoothing."""
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
            return {
                "loss": loss / len(right),
                "accuracy": accuracy(given, right),
                "macro_f1": macro_f1(given, right),
            }

        return Scoring(scores)

    def save(self, folder: Path) -> None:
        """As ``Prepared.save``."""
        PreparedEncoding.save(self, folder)
        self.labels.save(folder)


def prepare_classification(
    recipe: Recipe, device: torch.device, *, begun: Path | None = None, cache: Path | None = None
) -> PreparedClassification:
    """Load or make the data, number its labels, train a tokenizer unless there is one.

    Draws from torch's default generator, which is left where the first training step begins.
    """
    del cache  # texts with labels are few
    data = load_labelled(recipe.data, "label")
    examples = data.splits["train"]
    labels = Labels.of(examples) if begun is None else load_labels(begun)
    if len(labels.names) < 2:
        raise DataError(
            f"all training examples have the label {labels.names[0]!r}; two at least are needed"
        )
    numbers = {name: numbered(split, labels.numbers) for name, split in data.splits.items()}
    wish = Wish(
        recipe,
        "classify",
        len(labels.names),
        same_head=lambda folder: _same(folder, labels),
        pairs=bool(labels.pairs),
    )
    start = begin(wish, lambda: all_texts(examples), device, begun)
    layout = Layout(start.tokenizer.marks, start.config.max_len)
    return PreparedClassification(
        **parts(recipe, data, start, layout, device),
        load=load_classifier,
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
