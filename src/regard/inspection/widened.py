"""Narrow numbers (bf16) made wide, before anything is computed from them again.

What is shown is what the q and k of a run mean, and not one more rounding of it. A run inside
autocast has narrow queries and wide parameters, which fit together nowhere else.
"""

from __future__ import annotations

import copy
import dataclasses

import torch
from torch import Tensor, nn

from regard.functional.attend import wide
from regard.functional.biases import Alibi, Bias
from regard.functional.scores import BoundScore
from regard.inspection.tempered import Tempered
from regard.layers.score import PreparedScore, Score
from regard.layers.viewpoint import Seen


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


def _bias(bias: Bias, dtype: torch.dtype) -> Bias:
    if isinstance(bias, Alibi):
        return bias._replace(slopes=bias.slopes.to(dtype))
    return None if bias is None else bias.to(dtype)


def _score(score: BoundScore, dtype: torch.dtype) -> BoundScore:
    """The same score, fit for wider queries: parameters of a narrow model are copied."""
    if isinstance(score, Tempered):
        return Tempered(_score(score.inner, dtype), score.temperature)
    if isinstance(score, PreparedScore):
        inner = _score(score.score, dtype)
        return PreparedScore(inner) if isinstance(inner, Score) else score
    if not isinstance(score, nn.Module) or all(p.dtype == dtype for p in score.parameters()):
        return score
    return copy.deepcopy(score).to(dtype)
