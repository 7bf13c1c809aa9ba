"""A run that compares texts before its first step.

Pairs with scores: the cosine of two texts is brought to their score, the largest being 1. Pairs
without: of all second texts of a batch, a text should be nearest to its own (and the other way
round), which is how sentence encoders are trained contrastively.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from regard.core.errors import ConfigError
from regard.data.batch import Batch
from regard.data.labelled import Labelled
from regard.data.row_batches import (
    Layout,
    ordered_rows,
    planned_rows,
    row_stream,
    scored_pairs_batch,
)
from regard.data.stream import Stream
from regard.models.encoder import Encoder
from regard.models.encoder_heads import mean_of_real
from regard.recipes.recipe import Recipe
from regard.runs.kinds.embedder import agreement, load_embedder
from regard.runs.labelled import LabelledData, load_labelled
from regard.runs.prepared import Scoring
from regard.runs.tasks.beginning import Wish, begin
from regard.runs.tasks.encoding import PreparedEncoding, all_texts, parts
from regard.training.distributed import unwrapped
from regard.training.losses import Losses, StatelessObjective

TEMPERATURE = 0.05
"""Cosines are divided by it, so that a softmax can tell them apart."""

Scores = NDArray[np.float32]


def vectors(model: Encoder, batch: Batch) -> tuple[Tensor, Tensor]:
    """Both texts of each pair (B, D), of length 1."""
    pad = unwrapped(model).config.pad_id
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


class SimilarityLoss(StatelessObjective):
    """Regression where pairs have scores, contrast where they have none."""

    def __call__(self, model: Encoder, batch: Batch) -> Losses:
        """Summed over the pairs of a batch."""
        first, second = vectors(model, batch)
        n_pairs = batch.n_target_tokens
        if len(batch.scores):
            return Losses.of("regression", regression(first, second, batch.scores), n_pairs)
        return Losses.of("contrast", contrast(first, second), n_pairs)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedSimilarity(PreparedEncoding):
    """Pairs of texts, and an encoder whose vectors compare them."""

    train_scores: Scores
    """Over the scale; nothing, where pairs have none."""
    valid_scores: Scores

    @property
    def criteria(self) -> tuple[str, ...]:
        """As ``Prepared.criteria``: where pairs have scores, nothing is right or wrong."""
        return ("loss",) if len(self.valid_scores) else ("loss", "accuracy")

    def stream(self) -> Stream:
        """As ``Prepared.stream``."""
        settings = self.recipe.train
        return row_stream(
            scored_pairs_batch,
            self.train,
            self.layout,
            batch_tokens=settings.batch_tokens,
            seed=settings.seed,
            scores=self.train_scores,
        )

    def objective(self) -> SimilarityLoss:
        """As ``Prepared.objective``."""
        return SimilarityLoss()

    def flops(self, batch: Batch) -> float:
        """As ``Prepared.flops``: both texts are read."""
        shapes = [tuple(ids.shape) for ids in (batch.ids, batch.other_ids)]
        return sum(self.formula.training(n_rows, n_tokens, 0) for n_rows, n_tokens in shapes)

    def validation(self) -> Scoring:
        """As ``Prepared.validation``."""
        parts = ordered_rows(self.valid, self.layout, self.recipe.train.batch_tokens)
        batches = [
            scored_pairs_batch(self.valid, rows, layout=self.layout, scores=self.valid_scores)
            for rows in parts
        ]
        order = np.concatenate(parts)
        others = [self.data.splits["valid"][i].other or "" for i in order.tolist()]
        loss_of = SimilarityLoss()

        def scores(model: Encoder) -> Mapping[str, float]:
            here = [batch.to(self.device) for batch in batches]
            loss = sum(loss_of(model, batch).total.item() for batch in here)
            found = [vectors(model, batch) for batch in here]
            first, second = (torch.cat(side).cpu().numpy() for side in zip(*found, strict=True))
            wanted = self.valid_scores[order].tolist() if len(self.valid_scores) else []
            return {"loss": loss / len(order), **agreement(first, second, others, wanted)}

        return Scoring(scores)


def prepare_similarity(
    recipe: Recipe, device: torch.device, *, begun: Path | None = None, cache: Path | None = None
) -> PreparedSimilarity:
    """Load or make the pairs, train a tokenizer unless there is one, build the encoder.

    Draws from torch's default generator, which is left where the first training step begins.
    """
    del cache  # pairs that were compared by people are few
    data = load_labelled(recipe.data, "score")
    pairs = data.splits["train"]
    start = begin(Wish(recipe, "none"), lambda: all_texts(pairs), device, begun)
    layout = Layout(start.tokenizer.marks, start.config.max_len, joined=False)
    prepared = PreparedSimilarity(
        **parts(recipe, data, start, layout, device),
        load=load_embedder,
        train_scores=_scaled(pairs, pairs),
        valid_scores=_scaled(data.splits["valid"], pairs),
    )
    return replace(prepared, notes=(*prepared.notes, *_told_apart(prepared), *_alike(data)))


def _told_apart(prepared: PreparedSimilarity) -> list[str]:
    """Pairs without scores are learned by telling them apart: one alone in a batch teaches none."""
    if len(prepared.train_scores):
        return []
    size = prepared.recipe.train.batch_tokens
    batches = planned_rows(
        prepared.train, np.random.default_rng(0), layout=prepared.layout, batch_tokens=size
    )
    n_alone = sum(len(batch) == 1 for batch in batches)
    if n_alone == len(batches):
        raise ConfigError(
            f"train.batch_tokens={size} leaves one pair a batch, and pairs without scores are "
            "learned by telling them apart: raise it, or give more pairs"
        )
    alone = f"train: about {n_alone} of {len(batches)} batches hold one pair, which teaches nothing"
    return [f"{alone}; raise train.batch_tokens"] if n_alone else []


def _alike(data: LabelledData) -> list[str]:
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
