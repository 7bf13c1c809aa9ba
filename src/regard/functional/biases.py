"""Biases: what is added to the scores before they are normalised.

Any real tensor that broadcasts to (…, T, S) will do. ``Alibi`` is one that is not written out: a
number a head, from which a kernel computes the rest where it needs it.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from regard.functional import masks


class Alibi(NamedTuple):
    """−m·|i − j|: what is far away counts less, in each head by its own slope (Press et al. 2022).

    Where the future is hidden this is the paper's −m·(i − j); without it, what lies ahead counts
    as what lies behind.
    """

    slopes: Tensor
    """(H,): m of each head."""
    first: int | None = None
    """Position of the first query; where it is None, the last query stands at the last key."""

    def between(self, t: Tensor, s: Tensor) -> Tensor:
        """Positions (…) that broadcast -> (H, …)."""
        distance = (t - s).abs()
        return -self.slopes.view(-1, *(1 for _ in distance.shape)) * distance

    def dense(self, n_queries: int, n_keys: int) -> Tensor:
        """(H, T, S), written out."""
        t, s = masks.positions(n_queries, n_keys, self.first, self.slopes.device)
        return self.between(t, s)


Bias = Tensor | Alibi | None
"""Written out, or by slopes; None adds nothing."""


def dense(bias: Bias, n_queries: int, n_keys: int) -> Tensor | None:
    """The bias, written out."""
    return bias.dense(n_queries, n_keys) if isinstance(bias, Alibi) else bias


def times(bias: Bias, factor: float) -> Bias:
    """The same, so many times as strong."""
    if isinstance(bias, Alibi):
        return bias._replace(slopes=bias.slopes * factor)
    return None if bias is None else bias * factor
