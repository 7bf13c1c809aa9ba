"""Similarity: a vector for a text, near to those of texts that say the same.

Pairs with scores: the cosine of two texts is brought to their score, the largest being 1. Pairs
without: of all second texts of a batch, a text should be nearest to its own (and the other way
round), which is how sentence encoders are trained contrastively.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor
from typing_extensions import override

from regard.core.errors import ConfigError
from regard.data.batch import Batch
from regard.data.batching import buckets
from regard.data.records import Labelled
from regard.data.row_batches import scored_pairs_batch
from regard.data.splits import Data
from regard.evaluation.metrics import values
from regard.models.encoder import Encoder, mean_of_real
from regard.tasks.base import TASKS, Evaluation, Scoring
from regard.tasks.encoder_tasks import Begin, EncodingTask, PreparedEncoding, with_tables
from regard.tasks.encoding import EncoderRun, Texts, Vectors
from regard.tasks.examples import PageExample
from regard.tasks.reading_verbs import EMBED, NEAREST
from regard.tasks.verb import Form, Unit
from regard.text.settings import TEXT_SETTINGS
from regard.training.distributed import divided
from regard.training.losses import Losses, Objective

OWN_METRICS = ("spearman", "pearson")
"""Of pairs with scores, beside what the recipe names."""
ROWS = 1024
"""Texts that are compared with all others at once."""


@dataclass(frozen=True, slots=True, repr=False)
class Embedder(EncoderRun):
    """An encoder whose vectors tell how alike texts are."""

    records = "score"

    @override
    def scored(self, examples: Sequence[Labelled], split: str) -> Evaluation:
        """Scores on any pairs, and the cosines.

        Of pairs with scores: how well cosines agree with them. Of others: how often a text's
        nearest among all second texts is its own. Where all pairs have the same score, there is
        nothing to tell.
        """
        others = [one.other or "" for one in examples]
        first, second = self.embed([one.text for one in examples]), self.embed(others)
        cosines = (first * second).sum(axis=1)
        wanted = [one.score for one in examples if one.score is not None]
        found = agreement(first, second, others, wanted, self.recipe.train.metrics)
        return self.evaluation(split, len(examples), found, [f"{one:.4f}" for one in cosines])


def agreement(
    first: Vectors,
    second: Vectors,
    others: Sequence[str],
    scores: Sequence[float],
    more: Sequence[str] = (),
) -> dict[str, float]:
    """How well vectors of pairs (n, d) tell which texts belong together, and how much.

    With ``scores``, their correlations with the cosines and ``more`` metrics of both: 0 where the
    cosines are all alike, and none where the scores are, for there is nothing to agree with.
    Without, how often a text is nearest to its partner, or to another text that says the same;
    ``others`` are the second texts.
    """
    if not scores:
        n_right = 0
        for i in range(0, len(first), ROWS):  # some rows at a time, for all would be n²
            best = (first[i : i + ROWS] @ second.T).argmax(axis=1)
            n_right += sum(others[j] == others[i + row] for row, j in enumerate(best.tolist()))
        return {"accuracy": n_right / len(first)}
    if len({*scores}) < 2:
        return {}
    cosines = (first * second).sum(axis=1).tolist()
    found = values((*OWN_METRICS, *more), cosines, scores)
    return {name: 0.0 if np.isnan(value) else value for name, value in found.items()}


TEMPERATURE = 0.05
"""Cosines are divided by it, so that a softmax can tell them apart."""
Scores = NDArray[np.float32]


def vectors(model: Encoder, batch: Batch) -> tuple[Tensor, Tensor]:
    """Both texts of each pair (B, D), of length 1."""
    pad = model.config.pad_id
    first, second = (
        mean_of_real(model(ids), ids != pad).float() for ids in (batch.ids, batch.other_ids)
    )
    return F.normalize(first, dim=-1), F.normalize(second, dim=-1)


def regression(first: Tensor, second: Tensor, scores: Tensor) -> Tensor:
    """Squared distance of cosines and scores, summed over pairs (B, D), (B, D), (B,) -> ()."""
    return ((first * second).sum(dim=-1) - scores).square().sum()


def contrast(first: Tensor, second: Tensor) -> Tensor:
    """Cross-entropy of finding the partner among all of a batch, both ways, summed -> ()."""
    cosines = first @ second.mT / TEMPERATURE
    own = torch.arange(len(cosines), device=cosines.device)
    there, back = (F.cross_entropy(x, own, reduction="sum") for x in (cosines, cosines.mT))
    return (there + back) / 2


class SimilarityLoss(Objective):
    """Regression where pairs have scores, contrast where they have none."""

    def __call__(self, model: Encoder, batch: Batch) -> Losses:
        """Summed over the pairs of a batch."""
        first, second = vectors(model, batch)
        n_pairs = batch.count
        if len(batch.scores):
            return Losses.of("regression", regression(first, second, batch.scores), n_pairs)
        return Losses.of("contrast", contrast(first, second), n_pairs)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedSimilarity(PreparedEncoding):
    """Pairs of texts, and an encoder whose vectors compare them."""

    takes = "numbers"
    collate = staticmethod(scored_pairs_batch)

    @property
    @override
    def criteria(self) -> tuple[str, ...]:
        """Where pairs have scores, nothing is right or wrong."""
        return ("loss", *(OWN_METRICS if len(self.valid_targets["scores"]) else ("accuracy",)))

    @override
    def objective(self) -> SimilarityLoss:
        return SimilarityLoss()

    @override
    def flops(self, batch: Batch) -> float:
        """Both texts are read."""
        shapes = [tuple(ids.shape) for ids in (batch.ids, batch.other_ids)]
        return sum(self.formula.training(n_rows, n_tokens, 0) for n_rows, n_tokens in shapes)

    @override
    def validation(self) -> Scoring:
        rows = self.valid_rows()
        batches, order = [self.valid_batch(some) for some in rows], np.concatenate(rows)
        others = [self.data.splits["valid"][i].other or "" for i in order.tolist()]
        known = self.valid_targets["scores"]
        wanted = known[order].tolist() if len(known) else []
        loss_of = SimilarityLoss()

        def scores(model: Encoder) -> Mapping[str, float]:
            def judged(batch: Batch) -> tuple[float, Tensor, Tensor]:
                first, second = vectors(model, batch)
                return loss_of(model, batch).total.item(), first.cpu(), second.cpu()

            losses, *found = zip(*divided(batches, judged), strict=True)
            first, second = (torch.cat(side).numpy() for side in found)
            told = agreement(first, second, others, wanted, self.recipe.train.metrics)
            return {"loss": sum(losses) / len(order), **told}

        return Scoring(scores)


def _told_apart(prepared: PreparedSimilarity) -> list[str]:
    """Pairs without scores are learned by telling them apart: one alone in a batch teaches none."""
    if len(prepared.train_targets["scores"]):
        return []
    size = prepared.recipe.train.batch_tokens
    rng = np.random.default_rng(0)
    batches = buckets(*prepared.layout.sizes(prepared.train), size, rng)
    n_alone = sum(len(batch) == 1 for batch in batches)
    if n_alone == len(batches):
        raise ConfigError(
            f"train.batch_tokens={size} leaves one pair a batch, and pairs without scores are "
            "learned by telling them apart: raise it, or give more pairs"
        )
    alone = f"train: about {n_alone} of {len(batches)} batches hold one pair, which teaches nothing"
    return [f"{alone}; raise train.batch_tokens"] if n_alone else []


def _alike(data: Data[Labelled]) -> list[str]:
    """Where scores do not differ, there is nothing to agree with."""
    return [
        f"{name}: all pairs have the same score, so there is no correlation to tell"
        for name, pairs in data.splits.items()
        if len({one.score for one in pairs} - {None}) == 1
    ]


def _scaled(examples: Sequence[Labelled], training: Sequence[Labelled]) -> Scores:
    """Scores over the largest that training shows, or that is among them."""
    known = [one.score for one in training if one.score is not None]
    own = [one.score for one in examples if one.score is not None]
    scale = max((abs(score) for score in known or own), default=1.0) or 1.0
    return np.array(own, np.float32) / np.float32(scale)


class SimilarityTask(EncodingTask):
    """Pairs of texts, and an encoder whose vectors compare them."""

    name, run, unit = "similarity", Embedder, Unit("pair", "pairs")
    hub_task = "sentence-similarity"
    verbs = (EMBED, NEAREST)
    loss_unit = "loss"  # cosines are no nats
    heeds = TEXT_SETTINGS | {"data.columns", "train.init", "train.metrics"}
    smallest: ClassVar[Mapping[str, Any]] = {"n_vocab": 9}
    head_scores = ("spearman", "accuracy")
    of_sentences = (
        {
            "text": "the animal was tired",
            "other": "l'animal était fatigué\nla rue était large\njohn aime mary",
        },
    )
    well_known = (
        {
            "text": "A man is playing a guitar.",
            "other": "Somebody makes music.\nA woman is cooking rice.\nThe stock market fell.",
        },
    )

    @override
    def prepared(self, data: Data[Any], begun: Path | None, begin: Begin) -> PreparedSimilarity:
        train, valid = data.splits["train"], data.splits["valid"]
        scores = ({"scores": _scaled(pairs, train)} for pairs in (train, valid))
        prepared = PreparedSimilarity(**with_tables(begin(head="none", joined=False), *scores))
        return replace(prepared, notes=(*prepared.notes, *_told_apart(prepared), *_alike(data)))

    @override
    def read_texts(self, examples: Sequence[Labelled]) -> Texts:
        """Both texts of each pair, each alone."""
        return [text for one in examples for text in (one.text, one.other or "")]

    @override
    def form(self, run: Embedder) -> Form:
        return Form(
            label="A text",
            other="Texts to compare it with, one per line",
            optional=True,
            go="Compare",
            answer="Nearest",
            hint="Numbers are cosines: 1 means the same direction. Choose a text to look into it.",
            about="compares texts",
            stands="The numbers stand.",
            verb="nearest",
            view="nearest",
        )

    @override
    def asked_of(self, run: Embedder, records: Sequence[Any]) -> Iterator[PageExample]:
        """Each text beside three others, its own among them."""
        others = [one.other or "" for one in records]
        for i, one in enumerate(records[:-2]):
            yield {"text": one.text, "other": "\n".join(others[i : i + 3])}


TASKS.add("similarity")(SimilarityTask())
