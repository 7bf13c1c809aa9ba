"""What an attention was given, computed again in numbers that are wide enough to be shown.

What is shown is what the q and k of a run mean, and not one more rounding of it. A run inside
autocast has narrow queries (bf16) and wide parameters, which fit together nowhere else.
"""

from __future__ import annotations

import copy
import dataclasses
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.functional.attend import ScoreFn, wide
from regard.functional.positions import Alibi, Bias
from regard.functional.scores import BoundScore, Factors
from regard.layers.score import PreparedScore, Score
from regard.layers.viewpoint import Seen


@dataclass(frozen=True, slots=True)
class TemperedScore:
    """A score divided by a temperature."""

    inner: BoundScore
    temperature: float

    def __call__(self, q: Tensor, k: Tensor) -> Tensor:
        """Queries and keys -> scores."""
        return self.inner(q, k) / self.temperature

    def factors(self, q: Tensor, k: Tensor) -> Factors | None:
        """The same as an inner product, where it is one."""
        factors = self.inner.factors(q, k)
        return factors and factors._replace(scale=factors.scale / self.temperature)

    def ready(self, k: Tensor) -> tuple[ScoreFn, Tensor]:
        """Keys made ready for the score, and it at this temperature."""
        score, keys = self.inner.ready(k)
        return lambda q, k: score(q, k) / self.temperature, keys


def widened(seen: Seen) -> Seen:
    """The same in float32 or wider; itself where it is wide already."""
    dtype = wide(seen.q.dtype)
    return dataclasses.replace(
        seen,
        q=seen.q.to(dtype),
        k=seen.k.to(dtype),
        v=seen.v.to(dtype),
        score=_score(seen.score, dtype),
        bias=_bias(seen.bias, dtype),
        prior=None if seen.prior is None else seen.prior.to(dtype),
    )


@torch.no_grad()
def weights_of(seen: Seen) -> Tensor:
    """(B, H, T, S), from the very q and k of that call."""
    with torch.autocast(seen.q.device.type, enabled=False):
        return widened(seen).attended().weights


def before_scaling(score: BoundScore, q: Tensor, k: Tensor) -> tuple[Tensor, float | None]:
    """Scores (…, T, S) before they are scaled, and the scale."""
    factors = score.factors(q, k)
    if factors is not None:
        return factors.q @ factors.k.mT, factors.scale
    if isinstance(score, TemperedScore):
        inner, scale = before_scaling(score.inner, q, k)
        return inner, (1.0 if scale is None else scale) / score.temperature
    return score(q, k), None


def _bias(bias: Bias, dtype: torch.dtype) -> Bias:
    if isinstance(bias, Alibi):
        return bias._replace(slopes=bias.slopes.to(dtype))
    return None if bias is None else bias.to(dtype)


def _score(score: BoundScore, dtype: torch.dtype) -> BoundScore:
    """The same score, fit for wider queries: parameters of a narrow model are copied."""
    if isinstance(score, TemperedScore):
        return TemperedScore(_score(score.inner, dtype), score.temperature)
    if isinstance(score, PreparedScore):
        inner = _score(score.score, dtype)
        return PreparedScore(inner) if isinstance(inner, Score) else score
    if not isinstance(score, nn.Module) or all(p.dtype == dtype for p in score.parameters()):
        return score
    return copy.deepcopy(score).to(dtype)
