"""What a search tells of its steps, and a target whose beginning is given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.core.errors import ConfigError
from regard.text.specials import END_ID


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a search: the 2K candidates of each of B sentences, most probable first."""

    sentences: Tensor
    """(B,): their places in the batch that was asked for."""
    parents: Tensor
    """(B, 2K): the open hypothesis that each continues, by its rank among them."""
    ids: Tensor
    """(B, 2K): by which token."""
    token_log_prob: Tensor
    """(B, 2K): of that token."""
    log_prob: Tensor
    """(B, 2K): of the whole; -inf where there is no such candidate."""
    kept: Tensor
    """(B, K): the candidates that stay open, by index, in their new order; -1 where none does."""


Observer = Callable[[Step], None]


def only_given(log_probs: Tensor, prefix: Sequence[int], t: int) -> Tensor:
    """Log-probabilities (N, V) with all but the given token ruled out, as long as one is given.

    The given token keeps its own: what a search reports is what the model says of its target.
    """
    if t >= len(prefix):
        return log_probs
    if not (0 <= prefix[t] < log_probs.shape[1] and (log_probs[:, prefix[t]] > -torch.inf).all()):
        raise ConfigError(
            f"a prefix has ids of words, but its id {prefix[t]} at place {t} is none that can be "
            "written"
        )
    given = torch.arange(log_probs.shape[1], device=log_probs.device) == prefix[t]
    return log_probs.masked_fill(~given, -torch.inf)


class GreedyChoice:
    """The most probable token at each step, once the prefix is written; tells who observes."""

    def __init__(
        self, n_sentences: int, prefix: Sequence[int] = (), observer: Observer | None = None
    ) -> None:
        self.prefix = prefix
        self.observer = observer
        self.written = torch.zeros(n_sentences, dtype=torch.float64)  # log-probability so far

    def __call__(self, log_probs: Tensor, sentences: Tensor, t: int) -> Tensor:
        """As ``single.Choose``."""
        allowed = only_given(log_probs, self.prefix, t)
        first = allowed.argmax(dim=-1, keepdim=True)
        if self.observer is not None:
            self.observer(self._step(allowed, first, sentences.cpu()))
        return first.squeeze(-1)

    def _step(self, log_probs: Tensor, first: Tensor, sentences: Tensor) -> Step:
        """One beam has two candidates: the one that is taken, and the one that is not."""
        second = log_probs.scatter(1, first, -torch.inf).argmax(dim=-1, keepdim=True)
        ids = torch.cat((first, second), dim=1)  # (B, 2)
        best, ids = log_probs.gather(1, ids).cpu(), ids.cpu()
        totals = self.written[sentences].unsqueeze(1) + best
        self.written[sentences] = totals[:, 0]
        kept = torch.where(ids[:, :1] == END_ID, -1, 0)
        return Step(sentences, torch.zeros_like(ids), ids, best, totals, kept)
