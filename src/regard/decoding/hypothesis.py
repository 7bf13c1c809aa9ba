"""What a search returns, and the score by which hypotheses of different lengths are compared."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Self, TypeVar

from torch import Tensor

from regard.core.errors import CheckpointError
from regard.text.specials import END_ID

Length = TypeVar("Length", float, Tensor)


def penalty(n: Length, alpha: float) -> Length:
    """What a log-probability of ``n`` tokens, end token included, is divided by (Wu et al. 2016).

    >>> penalty(1, 0.6), penalty(7, 1.0), penalty(7, 0.0)
    (1.0, 2.0, 1.0)
    """
    return ((5 + n) / 6) ** alpha


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """One target of a translator, or one continuation of a language model."""

    ids: tuple[int, ...]
    """Without the begin token or the prompt, and without the end token."""
    log_prob: float
    """Sum over its tokens, the end token included if it was reached. It is the model's own,
    whatever the temperature, the cuts and the penalties."""
    score: float
    """``log_prob`` over the length penalty, and the coverage penalty: what searches rank by."""
    finished: bool
    """False where the limit came before the end."""

    @classmethod
    def read(
        cls,
        written: Sequence[int],
        log_prob: float,
        length_penalty: float,
        *,
        ends: Collection[int] = (END_ID,),
        stopped: bool = False,
    ) -> Self:
        """From the tokens after the prompt, up to the first end; ``stopped``: it ended without one.

        >>> Hypothesis.read([7, 8, END_ID, END_ID], -3.0, length_penalty=0.0)
        Hypothesis(ids=(7, 8), log_prob=-3.0, score=-3.0, finished=True)
        """
        first = min((written.index(end) for end in ends if end in written), default=None)
        ids, ended = tuple(written[:first]), first is not None
        score = finite(log_prob) / penalty(max(1, len(ids) + ended), length_penalty)
        return cls(ids, log_prob, score, ended or stopped)


def finite(log_prob: float) -> float:
    """The same number; anything else that a model says is refused."""
    if math.isfinite(log_prob):
        return log_prob
    raise CheckpointError(
        f"every text must have a log-probability, but the model gave {log_prob}: its logits are "
        "not numbers; its weights are damaged, load an earlier checkpoint"
    )
