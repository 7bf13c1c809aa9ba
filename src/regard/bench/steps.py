"""One update of a model's weights as every reader would write it: the same for all peers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from regard.bench.contest import Work
from regard.data.batch import Batch
from regard.models.presets import n_parameters
from regard.text.specials import PAD_ID
from regard.training.losses import token_loss
from regard.training.precision import autocast

LR, LABEL_SMOOTHING, CLIP = 1e-4, 0.1, 1.0


def padded_training(
    model: nn.Module,
    batches: Sequence[Batch],
    *,
    device: torch.device,
    precision: str,
    compiled: bool = False,
) -> Work:
    """Train on each of the padded batches once; the unit is a target token."""
    model = model.to(device).train()
    optimiser = torch.optim.Adam(model.parameters(), lr=LR, betas=(0.9, 0.98), eps=1e-9, fused=True)
    forward: Callable[[Tensor, Tensor], Tensor] = model
    if compiled:
        forward = torch.compile(model, dynamic=True)
    here = [batch.to(device) for batch in batches]
    n_tokens = sum(batch.n_target_tokens for batch in here)

    def run() -> float:
        for batch in here:
            with autocast(device, precision):
                logits = forward(batch.source, batch.target_in)
                loss = token_loss(
                    logits, batch.target_out, pad=PAD_ID, label_smoothing=LABEL_SMOOTHING
                )
            (loss / batch.n_target_tokens).backward()
            nn.utils.clip_grad_norm_(model.parameters(), CLIP)
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
        return n_tokens

    return Work(run, learned(model))


def learned(model: nn.Module) -> int:
    """Parameters that are learned; tables of positions that are kept as such are not."""
    frozen = sum(p.numel() for p in model.parameters() if not p.requires_grad)
    return n_parameters(model) - frozen
