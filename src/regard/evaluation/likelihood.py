"""Scores of a model's probabilities and choices, before any text is written."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from regard.core.errors import DataError, ShapeError


def perplexity(total_log_prob: float, n_tokens: int) -> float:
    """exp of minus the mean natural log-probability: among how many tokens a model hesitates.

    >>> round(perplexity(4 * math.log(1 / 8), 4), 9)
    8.0
    """
    if n_tokens < 1:
        raise DataError(f"perplexity needs at least one token, got {n_tokens}; score some text")
    try:
        return math.exp(-total_log_prob / n_tokens)
    except OverflowError:
        return math.inf


def token_accuracy(predicted: ArrayLike, reference: ArrayLike, mask: ArrayLike) -> float:
    """Share of positions where the ids agree. All (B, T); the mask is True where it counts."""
    predicted, reference, mask = np.asarray(predicted), np.asarray(reference), np.asarray(mask)
    if not predicted.shape == reference.shape == mask.shape:
        raise ShapeError(
            "predicted ids, reference ids and mask must have one shape, got "
            f"{predicted.shape}, {reference.shape} and {mask.shape}"
        )
    if mask.dtype != np.bool_:
        raise ShapeError(f"mask must be boolean (True = counts), got {mask.dtype}")
    if not mask.any():
        raise DataError("token accuracy needs at least one position that counts; the mask has none")
    return float((predicted == reference)[mask].mean())
