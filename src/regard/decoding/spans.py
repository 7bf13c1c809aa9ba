"""The best spans of a text, given how well an answer starts and ends at each of its tokens."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

LONGEST = 30
"""Tokens of an answer."""


def best_spans(
    starts: Tensor, ends: Tensor, *, longest: int = LONGEST, n: int = 1
) -> list[tuple[int, int, float]]:
    """(first token, last token, sum of their scores) of the ``n`` best spans, best first.

    starts (C,), ends (C,): scores, such as log-probabilities, -inf where a span may not start or
    end. A span is no longer than ``longest`` tokens; there may be fewer than ``n``.
    """
    behind = F.pad(ends, (0, longest - 1), value=-torch.inf).unfold(0, longest, 1)
    scores = (starts.unsqueeze(1) + behind).flatten()  # (C · longest), by first token and length
    best = scores.topk(min(n, len(scores)))
    return [
        (place // longest, place // longest + place % longest, score)
        for score, place in zip(best.values.tolist(), best.indices.tolist(), strict=True)
        if score > -torch.inf
    ]
