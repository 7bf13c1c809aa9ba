"""Greedy search: at each step the most probable token, and no looking back."""

from __future__ import annotations

from torch import Tensor

from regard.decoding.hypothesis import Hypothesis
from regard.decoding.protocol import Generator
from regard.decoding.settings import LENGTH_PENALTY
from regard.decoding.single import follow
from regard.decoding.static import can_stay
from regard.decoding.static_greedy import static_greedy
from regard.decoding.steps import checked_limits
from regard.kernels.steps import top


def greedy(
    model: Generator, source: Tensor, *, limits: Tensor, length_penalty: float = LENGTH_PENALTY
) -> list[Hypothesis]:
    """One hypothesis for each sentence (B, S), of at most ``limits`` (B,) tokens, end included.

    The length penalty changes no choice, only the ``score`` that is reported.
    """
    limits = checked_limits(source, limits)
    if can_stay(model, limits, n_beams=1):
        return static_greedy(model, source, limits, length_penalty=length_penalty)
    return follow(
        model, source, limits=limits, choose=_most_probable, length_penalty=length_penalty
    )


def _most_probable(log_probs: Tensor, _sentences: Tensor, _t: int) -> Tensor:
    return top(log_probs, 1)[1].squeeze(1)
