"""What models that write a target learn by: cross-entropy, and REINFORCE for hard attention."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from regard.data.batch import Batch
from regard.functional.packing import PackedSide, Packing
from regard.models.base import LazyLogits, SequenceModel
from regard.text.specials import PAD_ID
from regard.training.losses import (
    Losses,
    Objective,
    cross_entropy,
    free_running_logits,
    token_log_probs,
)
from regard.training.reinforce import Baseline, accounts, surrogate
from regard.training.schedules import forced_share
from regard.training.settings import TrainSettings


class TokenLoss(Objective):
    """Cross-entropy of the target tokens, and what hard attention learns by REINFORCE.

    What it remembers between batches (how many there were, the baseline of hard attention) goes
    out by ``state`` and comes back by ``restore``, so that a training can be taken up again.
    """

    def __init__(self, settings: TrainSettings, *, compiled: bool = False) -> None:
        self.settings = settings
        self.n_batches = 0
        self.baseline = Baseline()
        self._lazy_logits = torch.compile(_lazy_logits) if compiled else _lazy_logits

    def __call__(self, model: SequenceModel, batch: Batch) -> Losses:
        """Of a model in training: as the settings say. Of any other: plainly, all words right."""
        inputs = self.inputs(batch)
        if batch.packed:
            return self._losses(self._lazy_logits(model, *inputs), batch)
        if not model.training:
            return self._losses(_lazy_logits(model, *inputs), batch)
        share = forced_share(
            self.settings.teacher_forcing, self.n_batches // self.settings.accumulate
        )
        self.n_batches += 1
        with accounts(model) as drawn:
            if share == 1 and not drawn:
                return self._losses(self._lazy_logits(model, *inputs), batch)
            source, target, more = inputs
            if share == 1:
                logits = model(source, target) if more is None else model(source, target, more)
            else:
                logits = free_running_logits(model, source, target, share, more)
        losses = self._losses(logits, batch)
        if drawn:
            real = batch.target_out != PAD_ID
            gains = self.baseline.gains(token_log_probs(logits, batch.target_out), real)
            reinforced = torch.stack([surrogate(one, gains, real) for one in drawn.values()]).sum()
            losses += Losses.of("reinforce", reinforced, batch.count)
        return losses

    def inputs(self, batch: Batch) -> tuple[Tensor, Tensor, Any]:
        """Source, target, and what else ``forward`` is given: None, or how texts are packed."""
        return _inputs(batch)

    def _losses(self, logits: Tensor | LazyLogits, batch: Batch) -> Losses:
        smoothing = self.settings.label_smoothing
        loss = cross_entropy(logits, batch.target_out, pad=PAD_ID, label_smoothing=smoothing)
        return Losses.of("cross_entropy", loss, batch.count)

    def state(self) -> dict[str, Any]:
        """What it remembers, as JSON."""
        return {"n_batches": self.n_batches, "baseline": self.baseline.state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Remember it again."""
        self.n_batches = state["n_batches"]
        self.baseline.restore(state["baseline"])


def _lazy_logits(model: SequenceModel, source: Tensor, target: Tensor, more: Any) -> LazyLogits:
    """Of all target tokens: states (B, T, D), of a packed batch (1, N, D)."""
    if more is None:
        return model(source, target, lazy=True)
    return model(source, target, more, lazy=True)


def _inputs(batch: Batch) -> tuple[Tensor, Tensor, Packing | None]:
    if not batch.packed:
        return batch.source, batch.target_in, None
    source = PackedSide(batch.source_positions, batch.source_texts, batch.source_bounds)
    target = PackedSide(batch.target_positions, batch.target_texts, batch.target_bounds)
    sizes = batch.sizes
    packing = Packing(source, target, batch.spans, sizes["block"], sizes["longest"])
    return batch.source, batch.target_in, packing
