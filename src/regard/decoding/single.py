"""One hypothesis a sentence: the loop that greedy search and sampling share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from regard.decoding.hypothesis import Hypothesis
from regard.decoding.protocol import Generator
from regard.decoding.steps import checked_limits, next_log_probs
from regard.text.specials import BEGIN_ID, END_ID

Choose = Callable[[Tensor, Tensor, int], Tensor]
"""Log-probabilities (N, V), each row's sentence (N,), position t from 0 -> chosen ids (N,)."""


@dataclass(frozen=True, slots=True)
class _Open:
    """The N targets that are still being written."""

    sentences: Tensor
    """(N,): which sentence of the batch each row belongs to."""
    limits: Tensor
    """(N,)."""
    ids: Tensor
    """(N, 1 + t), begin token first."""
    log_prob: Tensor
    """(N,)."""

    def select(self, rows: Tensor) -> Self:
        """The rows (N,) by index."""
        return type(self)(
            self.sentences[rows], self.limits[rows], self.ids[rows], self.log_prob[rows]
        )

    def extended(self, ids: Tensor, log_probs: Tensor) -> Self:
        """One token (N,) longer, given the log-probabilities (N, V) it was chosen from."""
        chosen = ids.unsqueeze(1)  # (N, 1)
        log_prob = self.log_prob + log_probs.gather(1, chosen).squeeze(1)
        return type(self)(
            self.sentences, self.limits, torch.cat((self.ids, chosen), dim=1), log_prob
        )

    def ended(self) -> Tensor:
        """(N,): True where the end token or the limit was reached."""
        return (self.ids[:, -1] == END_ID) | (self.ids.shape[1] > self.limits)


@torch.inference_mode()
def follow(
    model: Generator, source: Tensor, *, limits: Tensor, choose: Choose, length_penalty: float
) -> list[Hypothesis]:
    """Let ``choose`` pick each next token until every sentence (B, S) has ended.

    Sentences leave the batch when they end, so the work shrinks with it.
    """
    limits = checked_limits(source, limits)
    memory = model.encode(source)
    state = model.start(memory)
    targets = _begin(limits)
    found: dict[int, Hypothesis] = {}
    for t in range(max(limits.tolist())):
        logits, state = model.step(targets.ids[:, -1], memory, state)
        log_probs = next_log_probs(logits)
        targets = targets.extended(choose(log_probs, targets.sentences, t), log_probs)
        ended = targets.ended()
        stay = (~ended).nonzero().squeeze(1)  # the one wait for the device in a usual step
        if len(stay) == len(ended):
            continue
        found |= _read(targets.select(ended.nonzero().squeeze(1)), length_penalty)
        if len(stay) == 0:
            break
        targets, memory, state = targets.select(stay), memory.select(stay), state.select(stay)
    return [found[sentence] for sentence in range(source.shape[0])]


def _begin(limits: Tensor) -> _Open:
    return _Open(
        sentences=torch.arange(len(limits), device=limits.device),
        limits=limits,
        ids=limits.new_full((len(limits), 1), BEGIN_ID, dtype=torch.int64),
        log_prob=limits.new_zeros(len(limits), dtype=torch.float32),  # a wider sum widens it
    )


def _read(ended: _Open, length_penalty: float) -> dict[int, Hypothesis]:
    """Sentence -> its hypothesis."""
    rows = zip(ended.sentences.tolist(), ended.ids.tolist(), ended.log_prob.tolist(), strict=True)
    return {
        sentence: Hypothesis.read(ids[1:], log_prob, length_penalty)
        for sentence, ids, log_prob in rows
    }
