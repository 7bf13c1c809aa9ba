"""Learning rates over the steps, as a share of the highest one."""

from __future__ import annotations

import math

from regard.training.settings import TrainSettings


def share(step: int, settings: TrainSettings) -> float:
    """Share of the highest learning rate at an update, counted from 1.

    ``noam`` (Vaswani et al. 2017) rises linearly and falls as 1/√step; with the default height it
    is their d_model^-0.5 · min(step^-0.5, step · warmup^-1.5).
    """
    warmup = settings.warmup_steps
    if step <= warmup:
        return step / warmup
    if settings.schedule == "noam":
        return math.sqrt(warmup / step)
    if settings.schedule == "linear":
        assert settings.max_steps is not None
        return max(0.0, (settings.max_steps + 1 - step) / max(1, settings.max_steps + 1 - warmup))
    return 1.0


def highest(settings: TrainSettings, d_model: int) -> float:
    """The highest learning rate: as given, or the paper's d_model^-0.5 · warmup^-0.5."""
    return settings.lr or (d_model * settings.warmup_steps) ** -0.5
