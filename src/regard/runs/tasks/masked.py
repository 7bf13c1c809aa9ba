"""A run that guesses words before its first step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from regard.data.batch import Batch
from regard.data.masking import Masking, fixed_masked, masked_stream
from regard.data.row_batches import Layout
from regard.data.stream import Stream
from regard.models.encoder import Encoder
from regard.recipes.recipe import Recipe
from regard.runs.kinds.filler import guessing, load_filler
from regard.runs.labelled import load_labelled
from regard.runs.prepared import Scoring
from regard.runs.tasks.beginning import Wish, begin
from regard.runs.tasks.encoding import PreparedEncoding, all_texts, parts
from regard.training.distributed import unwrapped
from regard.training.losses import Losses, StatelessObjective, cross_entropy


class MaskedLoss(StatelessObjective):
    """Cross-entropy of the words left out, summed over them."""

    def __init__(self, smoothing: float) -> None:
        self.smoothing = smoothing

    def __call__(self, model: Encoder, batch: Batch) -> Losses:
        """Without the logits of any other place."""
        inputs = unwrapped(model).inputs(batch.ids, batch.segments)
        logits = model(*inputs, places=batch.positions)
        loss = cross_entropy(logits, batch.targets, label_smoothing=self.smoothing)
        return Losses.of("cross_entropy", loss, batch.n_target_tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedMasked(PreparedEncoding):
    """Texts, and an encoder that guesses what is left out of them."""

    masking: Masking

    @property
    def criteria(self) -> tuple[str, ...]:
        """As ``Prepared.criteria``."""
        return ("loss", "accuracy")

    def stream(self) -> Stream:
        """As ``Prepared.stream``."""
        settings = self.recipe.train
        return masked_stream(
            self.train, self.masking, batch_tokens=settings.batch_tokens, seed=settings.seed
        )

    def objective(self) -> MaskedLoss:
        """As ``Prepared.objective``."""
        return MaskedLoss(self.recipe.train.label_smoothing)

    def validation(self) -> Scoring:
        """As ``Prepared.validation``; the loss is the plain one, without smoothing."""
        batches = fixed_masked(self.valid, self.masking, self.recipe.train.batch_tokens)

        def scores(model: Encoder) -> Mapping[str, float]:
            return guessing(model, batches, self.device)

        return Scoring(scores)


def prepare_masked(
    recipe: Recipe, device: torch.device, *, begun: Path | None = None, cache: Path | None = None
) -> PreparedMasked:
    """Load or make the texts, train a tokenizer unless there is one, build the encoder.

    Draws from torch's default generator, which is left where the first training step begins.
    """
    del cache  # the ids are made again as fast
    data = load_labelled(recipe.data, "text")
    start = begin(Wish(recipe, "masked"), lambda: all_texts(data.splits["train"]), device, begun)
    layout = Layout(start.tokenizer.marks, start.config.max_len)
    return PreparedMasked(
        **parts(recipe, data, start, layout, device),
        load=load_filler,
        masking=Masking.of(layout, start.tokenizer.n_vocab),
    )
