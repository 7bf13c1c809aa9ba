"""What every search does alike: check its limits, and read the next token's log-probabilities."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.core.errors import ConfigError, ShapeError
from regard.kernels.steps import Best, best_tokens, log_probs
from regard.text.specials import BEGIN_ID, PAD_ID

N_HIDDEN = max(PAD_ID, BEGIN_ID) + 1
"""Padding and begin, the first ids, are never chosen."""


def checked_limits(source: Tensor, limits: Tensor) -> Tensor:
    """Limits (B,) on the source's device: the most tokens a target may have, end token included.

    Each sentence has its own, so that what it gives does not depend on what shares its batch.
    """
    if limits.shape != source.shape[:1] or limits.dtype not in (torch.int32, torch.int64):
        raise ShapeError(
            f"limits must be one integer a sentence, here ({source.shape[0]},), "
            f"got {tuple(limits.shape)} of {limits.dtype}"
        )
    if (limits < 1).any():
        raise ConfigError(
            f"a target needs room for at least 1 token, got a limit of {int(limits.min())}; "
            "raise max_len"
        )
    return limits.to(source.device)


def next_best(logits: Tensor, n: int) -> Best:
    """The n most probable tokens of each row (N, V), or all of them if there are fewer."""
    return best_tokens(logits, min(n, logits.shape[1]), n_hidden=N_HIDDEN)


def next_log_probs(logits: Tensor) -> Tensor:
    """Logits (N, V) -> log-probabilities (N, V), at least in float32.

    Padding and the begin token can't be chosen, yet keep their share of the probability: what a
    search reports is what the model says of its target, and a plain forward finds it again.
    """
    found = log_probs(logits)
    found[:, PAD_ID] = -torch.inf
    found[:, BEGIN_ID] = -torch.inf
    return found
