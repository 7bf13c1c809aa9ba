"""What a model costs: multiplications and additions, counted by one function for every system.

The count is torch's own, of the readable kernels, on tensors without storage. A model's cost for
one sentence pair is a polynomial of degree two in the source length S and the target length T
(attention is the only part that grows faster than linearly), so six counts give it exactly. Where
keys are compressed, that holds of lengths that are whole slots, and nearly of others.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from regard.kernels.call import reference_only
from regard.layers.attention import MultiHeadAttention
from regard.layers.window import STRIDE, BlockWindow, MonotonicWindow, Window
from regard.models.base import SequenceModel
from regard.models.encoder import Encoder

BACKWARD = 3
"""Forward and backward together cost three forwards: the gradient of a product is two products."""


@dataclass(frozen=True, slots=True)
class FlopFormula:
    """FLOPs of a forward pass for one pair: c · (1, S, T, S², T², S·T), less what windows spare."""

    coefficients: tuple[float, ...]
    windows: tuple[tuple[float, int], ...] = ()
    """Of each layer where source and target are one text and a query meets the keys of its window
    alone: FLOPs of a query with a key, and the keys that it meets."""

    def forward(self, n_source: float, n_target: float) -> float:
        """FLOPs of one pair, forward only."""
        whole = np.dot(self.coefficients, _terms(n_source, n_target))
        return float(whole) - self._spared(np.array([n_source + n_target], dtype=np.float64))

    def _spared(self, n: NDArray[np.float64]) -> float:
        """Of texts of so many tokens (N,), beside a count in which every query meets every key."""
        return sum(pair * float((n * (n - width).clip(0)).sum()) for pair, width in self.windows)

    def training(self, n_source: NDArray[np.int64], n_target: NDArray[np.int64]) -> float:
        """FLOPs of a training step on pairs of these lengths."""
        s, t = n_source.astype(np.float64), n_target.astype(np.float64)
        terms = np.array([len(s), s.sum(), t.sum(), s @ s, t @ t, s @ t])
        return BACKWARD * (float(np.dot(self.coefficients, terms)) - self._spared(s + t))


def flop_formula(model: SequenceModel, *, with_source: bool = False) -> FlopFormula:
    """Count a model at six lengths, none beyond what it can read, and solve for its formula.

    ``with_source``: tokens of the source are predicted, too. Windows of encoders are counted as if
    all keys were seen, as the readable kernel computes them.
    """
    skeleton = copy.deepcopy(model).to("meta")
    n, _, _ = _lengths(model.config.longest)
    lengths = [(n, n), (2 * n, n), (n, 2 * n), (3 * n, n), (n, 3 * n), (2 * n, 2 * n)]
    counts = [count_forward(skeleton, *pair, with_source=with_source) for pair in lengths]
    rows = np.array([_terms(*pair) for pair in lengths], dtype=np.float64)
    found = np.linalg.solve(rows, np.array(counts, dtype=np.float64))
    return FlopFormula(tuple(found), _windows(model))


def _windows(model: SequenceModel) -> tuple[tuple[float, int], ...]:
    """Layers with narrow windows; the readable kernel, which was counted, meets all keys."""
    attentions = [one for one in model.modules() if isinstance(one, MultiHeadAttention)]
    return tuple(
        (2.0 * (one.to_q.out_features + one.to_out.in_features), width)
        for one in (attentions if model.reads_as_one else ())
        if (width := _keys_met(one.window)) is not None
    )


def _keys_met(window: Window) -> int | None:
    """By a query whose future is hidden; None where it meets all keys."""
    if isinstance(window, BlockWindow):
        return 2 * window.half_width
    return window.half_width + 1 if isinstance(window, MonotonicWindow) else None


@dataclass(frozen=True, slots=True)
class TextFlops:
    """FLOPs of a forward pass of a model of one text: c · (1, T, T²), and so many an answer."""

    coefficients: tuple[float, ...]
    an_answer: float = 0.0
    """Of a head that is asked at some of the positions only."""

    def forward(self, n_tokens: float) -> float:
        """FLOPs of one text, forward only, without answers."""
        return float(np.dot(self.coefficients, (1.0, n_tokens, n_tokens**2)))

    def training(self, n_rows: int, n_tokens: int, n_answers: int = 0) -> float:
        """FLOPs of a training step on a padded batch."""
        return BACKWARD * (n_rows * self.forward(n_tokens) + n_answers * self.an_answer)


def text_flops(model: nn.Module, longest: int | None) -> TextFlops:
    """Count a model that reads one text at three lengths, none beyond the longest it can read."""
    skeleton = copy.deepcopy(model).to("meta").requires_grad_(False)
    return TextFlops(_solved(skeleton, _lengths(longest)))


def encoder_flops(model: Encoder) -> TextFlops:
    """Count an encoder: a head that answers for a whole text with it, any other once a position."""
    skeleton = copy.deepcopy(model).to("meta").requires_grad_(False)
    lengths = _lengths(model.config.longest)
    if model.config.head == "classify":
        return TextFlops(_solved(skeleton, lengths))
    n = lengths[0]
    an_answer = (count_text(skeleton, n) - count_text(skeleton.states, n)) / n
    return TextFlops(_solved(skeleton.states, lengths), an_answer)


def _lengths(longest: int | None) -> tuple[int, int, int]:
    """Three that can be read, of whole slots where texts are compressed, if they are not tiny."""
    n = min(9, (longest or 27) // 3)
    n = n // STRIDE * STRIDE or n
    return n, 2 * n, 3 * n


def _solved(reads: Callable[[Tensor], Any], lengths: Sequence[int]) -> tuple[float, ...]:
    """The coefficients of what a model on ``meta`` costs."""
    counts = [count_text(reads, length) for length in lengths]
    rows = np.array([(1.0, length, length**2) for length in lengths], dtype=np.float64)
    return tuple(np.linalg.solve(rows, np.array(counts, dtype=np.float64)).tolist())


def count_text(reads: Callable[[Tensor], Any], n_tokens: int, device: str = "meta") -> int:
    """FLOPs of one forward pass on one text, by torch's counter on the readable kernels."""
    ids = torch.ones(1, n_tokens, dtype=torch.long, device=device)
    with torch.no_grad(), reference_only(), FlopCounterMode(display=False) as counter:
        reads(ids)
    return counter.get_total_flops()


class CallFlops:
    """FLOPs of a model by the shapes of what it reads, each counted once."""

    def __init__(self, model: nn.Module, call: str = "forward") -> None:
        """``call`` is the method that reads."""
        self._skeleton = copy.deepcopy(model).to("meta").requires_grad_(False)
        self._call = call
        self._known: dict[tuple[torch.Size, ...], int] = {}

    def training(self, *inputs: Tensor) -> float:
        """FLOPs of a training step on inputs (B, …)."""
        shapes = tuple(x.shape[1:] for x in inputs)
        if shapes not in self._known:
            first = [x[:1].to("meta") for x in inputs]
            with torch.no_grad(), reference_only(), FlopCounterMode(display=False) as counter:
                getattr(self._skeleton, self._call)(*first)
            self._known[shapes] = counter.get_total_flops()
        return BACKWARD * len(inputs[0]) * self._known[shapes]


def count_forward(
    model: nn.Module, n_source: int, n_target: int, *, with_source: bool = False
) -> int:
    """FLOPs of one forward pass, by torch's counter on the readable kernels."""
    device = next(model.parameters()).device
    source = torch.ones(1, n_source, dtype=torch.long, device=device)
    target = torch.ones(1, n_target, dtype=torch.long, device=device)
    with torch.no_grad(), reference_only(), FlopCounterMode(display=False) as counter:
        model(source, target, **({"with_source": True} if with_source else {}))
    return counter.get_total_flops()


def _terms(s: float, t: float) -> tuple[float, ...]:
    return (1.0, s, t, s * s, t * t, s * t)
