"""What training makes small."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor


def token_loss(logits: Tensor, targets: Tensor, *, pad: int, label_smoothing: float) -> Tensor:
    """Cross-entropy summed over all tokens that are not padding.

    logits (B, T, V), targets (B, T) -> (). With label smoothing ε, the wanted distribution is
    (1 - ε) on the target and ε spread evenly over the vocabulary. A sum, so that batches of any
    sizes can be added up and divided once by their tokens.
    """
    return F.cross_entropy(
        logits.flatten(0, 1).float(),
        targets.flatten(),
        ignore_index=pad,
        label_smoothing=label_smoothing,
        reduction="sum",
    )


def token_log_probs(logits: Tensor, targets: Tensor) -> Tensor:
    """logits (B, T, V), targets (B, T) -> the log-probability of each target (B, T)."""
    chosen = logits.float().log_softmax(dim=-1).gather(2, targets.unsqueeze(2))
    return chosen.squeeze(2)
