"""Numbers that change over the steps of a training: the learning rate, and teacher forcing.

A schedule of the learning rate is a function of the step, the warm-up's length and the last step
(None where only time or patience ends the run) that gives a share of the highest rate. During the
warm-up, which is over when ``step`` equals ``warmup_steps``, every rate rises linearly.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field

from regard.core.registry import Registry


@dataclass(frozen=True, slots=True)
class Schedule:
    """An entry of the registry."""

    share: Callable[[int, int, int | None], float]
    """(step, warmup_steps, max_steps) -> share of the highest rate, after the warm-up."""
    needs_end: bool = False
    """Whether it falls to zero at ``train.max_steps``, which must then be given."""


SCHEDULES: Registry[Schedule] = Registry("schedule")


def _inverse_sqrt(step: int, warmup: int, _end: int | None) -> float:
    """Vaswani et al. 2017: d_model^-0.5 · min(step^-0.5, step · warmup^-1.5), over its highest."""
    return math.sqrt(warmup / step)


def _linear(step: int, warmup: int, end: int | None) -> float:
    assert end is not None
    return max(0.0, (end + 1 - step) / max(1, end + 1 - warmup))


def _cosine(step: int, warmup: int, end: int | None) -> float:
    """Half a cosine (Loshchilov & Hutter 2017), from 1 to 0."""
    return (1 - math.cos(math.pi * min(1.0, _linear(step, warmup, end)))) / 2


SCHEDULES.add("inverse_sqrt")(Schedule(_inverse_sqrt))
SCHEDULES.add("linear")(Schedule(_linear, needs_end=True))
SCHEDULES.add("cosine")(Schedule(_cosine, needs_end=True))
SCHEDULES.add("constant")(Schedule(lambda _step, _warmup, _end: 1.0))


class ForcingSchedule(BaseModel):
    """Teacher forcing that changes evenly from ``start`` to ``end`` and then stays."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    start: float = Field(1.0, ge=0, le=1, description="Share of right words at the beginning.")
    end: float = Field(0.0, ge=0, le=1, description="Share of right words at the end.")
    steps: int = Field(ge=1, description="Updates from the one to the other.")


def forced_share(setting: float | ForcingSchedule, step: int) -> float:
    """The chance that a decoder is shown the right word, not its own, at a step counted from 0."""
    if isinstance(setting, float):
        return setting
    done = min(1.0, step / setting.steps)
    return setting.start + (setting.end - setting.start) * done
