"""What a model of one text costs: an encoder, and its head on each thing that is asked of it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from regard.kernels.call import reference_only
from regard.models.encoder import Encoder
from regard.training.flops import BACKWARD


@dataclass(frozen=True, slots=True)
class EncoderFlops:
    """FLOPs of a forward pass: c · (1, S, S²) a text, and so many an answer of the head."""

    coefficients: tuple[float, ...]
    an_answer: float

    def training(self, n_rows: int, n_tokens: int, n_answers: int) -> float:
        """FLOPs of a training step on a padded batch (B, S)."""
        of_text = float(np.dot(self.coefficients, (1.0, n_tokens, n_tokens**2)))
        return BACKWARD * (n_rows * of_text + n_answers * self.an_answer)


def encoder_flops(model: Encoder) -> EncoderFlops:
    """Count an encoder at three lengths, none beyond what it can read, and solve for its formula.

    A head that answers for a whole text is counted with it, any other once a position.
    """
    skeleton = copy.deepcopy(model).to("meta").requires_grad_(False)
    n = min(8, (model.config.longest or 24) // 3)
    lengths = (n, 2 * n, 3 * n)
    labels = model.config.head == "classify"
    counts = [_count(skeleton if labels else skeleton.states, length) for length in lengths]
    rows = np.array([(1.0, length, length**2) for length in lengths])
    an_answer = 0.0 if labels else (_count(skeleton, n) - counts[0]) / n
    solved = np.linalg.solve(rows, np.array(counts, np.float64))
    return EncoderFlops(tuple(solved.tolist()), an_answer)


def _count(reading: Callable[[Tensor], Tensor], n_tokens: int) -> int:
    ids = torch.ones(1, n_tokens, dtype=torch.long, device="meta")
    with torch.no_grad(), reference_only(), FlopCounterMode(display=False) as counter:
        reading(ids)
    return counter.get_total_flops()
