"""What training makes small for a translator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import torch
from torch import Tensor

from regard.data.batch import Batch
from regard.functional.texts import Packing, Side
from regard.kernels.linear_cross_entropy import linear_cross_entropy
from regard.models.base import SequenceModel
from regard.models.transformer import Transformer
from regard.text.specials import PAD_ID
from regard.training.forcing import forced_share, written
from regard.training.losses import token_log_probs, token_loss
from regard.training.reinforce import Baseline, accounts, surrogate
from regard.training.settings import TrainSettings


class TokenLoss:
    """The loss of a batch, summed over its target tokens.

    What it remembers between batches (how many there were, the baseline of hard attention) goes
    out by ``state`` and comes back by ``restore``, so that a training can be taken up again.
    """

    def __init__(self, settings: TrainSettings, *, compiled: bool = False) -> None:
        self.settings = settings
        self.n_batches = 0
        self.baseline = Baseline()
        self._states = torch.compile(_states) if compiled else _states

    def __call__(self, model: SequenceModel, batch: Batch) -> Tensor:
        """Of a model in training: as the settings say. Of any other: plainly, all words right."""
        if batch.packed:
            return self._of_states(self._forward(model, batch), model, batch)
        if not model.training:
            return self._of_states(_states(model, *_inputs(batch)), model, batch)
        share = forced_share(
            self.settings.teacher_forcing, self.n_batches // self.settings.accumulate
        )
        self.n_batches += 1
        with accounts(model) as drawn:
            if share == 1 and not drawn:
                return self._of_states(self._forward(model, batch), model, batch)
            if share == 1:
                logits = model(batch.source, batch.target_in)
            else:
                logits = written(model, batch.source, batch.target_in, share)
        loss = self._of(logits, batch)
        if drawn:
            real = batch.target_out != PAD_ID
            gains = self.baseline.gains(token_log_probs(logits, batch.target_out), real)
            loss = loss + sum(surrogate(one, gains, real) for one in drawn.values())
        return loss

    def _forward(self, model: SequenceModel, batch: Batch) -> Tensor:
        return self._states(model, *_inputs(batch))

    def _of_states(self, states: Tensor, model: SequenceModel, batch: Batch) -> Tensor:
        """Without the logits of all tokens at once."""
        return linear_cross_entropy(
            states.flatten(0, 1),
            *model.output(),
            batch.target_out.flatten(),
            pad=PAD_ID,
            label_smoothing=self.settings.label_smoothing,
        )

    def _of(self, logits: Tensor, batch: Batch) -> Tensor:
        return token_loss(
            logits,
            batch.target_out,
            pad=PAD_ID,
            label_smoothing=self.settings.label_smoothing,
        )

    def state(self) -> dict[str, Any]:
        """What it remembers, as JSON."""
        return {"n_batches": self.n_batches, "baseline": self.baseline.state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Remember it again."""
        self.n_batches = state["n_batches"]
        self.baseline.restore(state["baseline"])


def _states(
    model: SequenceModel, source: Tensor, target: Tensor, packing: Packing | None
) -> Tensor:
    """What the last layer reads (B, T, D); of a packed batch (1, N, D)."""
    if packing is None:
        return model.states(source, target)
    return cast("Transformer", model).states(source, target, packing)


def _inputs(batch: Batch) -> tuple[Tensor, Tensor, Packing | None]:
    if not batch.packed:
        return batch.source, batch.target_in, None
    source = Side(batch.source_positions, batch.source_texts, batch.source_bounds)
    target = Side(batch.target_positions, batch.target_texts, batch.target_bounds)
    sizes = batch.sizes
    packing = Packing(source, target, batch.spans, sizes["block"], sizes["longest"])
    return batch.source, batch.target_in, packing
