"""What models that write a target learn by: cross-entropy, and REINFORCE for hard attention."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from regard.core.errors import ConfigError
from regard.data.batch import Batch
from regard.data.settings import LossOn
from regard.functional.packing import PackedSide, Packing
from regard.kernels.grouped import is_one_kernel
from regard.kernels.table import packed_kernel
from regard.models.base import LazyLogits, SequenceModel
from regard.models.prefix_decoder import BothLogits
from regard.models.settings import SequenceConfig
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
from regard.training.update import uses_bf16


class TokenLoss(Objective):
    """Cross-entropy of the target tokens, and what hard attention learns by REINFORCE.

    Batches that say how many tokens of their sources are to be predicted (``data.loss_on``) get the
    cross-entropy of these besides, as ``source``; a model in evaluation is judged by its targets.

    What it remembers between batches (how many there were, the baseline of hard attention) goes
    out by ``state`` and comes back by ``restore``, so that a training can be taken up again.
    """

    def __init__(self, settings: TrainSettings, *, compiled: bool = False) -> None:
        self.settings = settings
        self.step = 0
        self.baseline = Baseline()
        self._lazy_logits = torch.compile(_lazy_logits) if compiled else _lazy_logits
        self._both_logits = torch.compile(_both_logits) if compiled else _both_logits

    def __call__(self, model: SequenceModel, batch: Batch) -> Losses:
        """Of a model in training: as the settings say. Of any other: plainly, all words right."""
        inputs = self.inputs(batch)
        if batch.packed:
            return self._losses(self._lazy_logits(model, *inputs), batch)
        if not model.training:
            return self._losses(_lazy_logits(model, *inputs), batch)
        if batch.n_source:
            return self._both_losses(self._both_logits(model, *inputs), batch)
        share = forced_share(self.settings.teacher_forcing, self.step)
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
        return Losses.of("cross_entropy", loss, batch.count - batch.n_source)

    def _both_losses(self, logits: BothLogits, batch: Batch) -> Losses:
        smoothing = self.settings.label_smoothing
        wanted = batch.source[:, 1:]
        loss = cross_entropy(logits.source, wanted, pad=PAD_ID, label_smoothing=smoothing)
        return self._losses(logits.target, batch) + Losses.of("source", loss, batch.n_source)

    def begin_update(self, step: int) -> None:
        """Teacher forcing may change with it."""
        self.step = step

    def state(self) -> dict[str, Any]:
        """What it remembers, as JSON."""
        return {"baseline": self.baseline.state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Remember it again."""
        self.baseline.restore(state["baseline"])


def _lazy_logits(model: SequenceModel, source: Tensor, target: Tensor, more: Any) -> LazyLogits:
    """Of all target tokens: states (B, T, D), of a packed batch (1, N, D)."""
    if more is None:
        return model(source, target, lazy=True)
    return model(source, target, more, lazy=True)


def _both_logits(model: SequenceModel, source: Tensor, target: Tensor, _more: Any) -> BothLogits:
    """Of all tokens of the source but the first, and of all target tokens."""
    return model(source, target, lazy=True, with_source=True)


def reads_packed(config: SequenceConfig, device: torch.device, precision: str) -> bool:
    """Whether a training there lays texts end to end: on a GPU that has a kernel for the heads, or
    where there is no attention.
    """
    if device.type != "cuda" or not config.packs:
        return False
    width = config.packed_width
    return width is None or packed_kernel(width, half=uses_bf16(device, precision))


def records_padded(config: SequenceConfig, device: torch.device, precision: str) -> bool:
    """Whether a training there pads texts to few shapes and records its updates: on a GPU.

    Experts must be in 16 bits for that, on a GPU that has one kernel for all of them: else the host
    has to ask how many tokens each has.
    """
    if device.type != "cuda" or not config.records or reads_packed(config, device, precision):
        return False
    if getattr(config, "experts", None) is None:
        return True
    return uses_bf16(device, precision) and is_one_kernel(device)


def check_loss_on(loss_on: LossOn, config: SequenceConfig, settings: TrainSettings) -> None:
    """Refuse to predict sources where a model cannot, or where it writes while it learns."""
    if loss_on == "target":
        return
    if not config.PREDICTS_SOURCE:
        raise ConfigError(
            f"data.loss_on=all: a model of the family {config.family!r} reads its source and "
            "predicts none of it; choose transformer-d or dmca2018, or leave it out"
        )
    if settings.teacher_forcing != 1:
        raise ConfigError(
            "data.loss_on=all needs train.teacher_forcing=1: who predicts the source reads it"
        )


def _inputs(batch: Batch) -> tuple[Tensor, Tensor, Packing | None]:
    if not batch.packed:
        return batch.source, batch.target_in, None
    source = PackedSide(batch.source_positions, batch.source_texts, batch.source_bounds)
    target = PackedSide(batch.target_positions, batch.target_texts, batch.target_bounds)
    sizes = batch.sizes
    packing = Packing(source, target, batch.spans, sizes["block"], sizes["longest"])
    return batch.source, batch.target_in, packing
