"""Several models that write one target together: at each step the mean of their probabilities.

log p(token) = logsumexp_m log p_m(token) - log M, over the M members (an arithmetic mean, taken
inside the search). An ensemble speaks the protocol of its members: its memory and its state are
theirs side by side, so that greedy, beam, sampling, prefixes and scoring know nothing of it. What
it gives as logits are log-probabilities already.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard.kernels.steps import log_probs
from regard.text.specials import END_ID, PAD_ID


@dataclass(frozen=True, slots=True)
class MemberValues:
    """The memories of all members, or their states."""

    values: tuple[Any, ...]

    def select(self, rows: Tensor) -> MemberValues:
        """These rows (N,) of each member's, by index, in this order; an index may repeat."""
        return MemberValues(tuple(value.select(rows) for value in self.values))


def mean_log_probs(logits: Sequence[Tensor]) -> Tensor:
    """The logits (…, V) of each member -> log of the mean probability (…, V), in float32 at least.

    >>> mean_log_probs([torch.tensor([0.2, 0.8]).log(), torch.tensor([0.6, 0.4]).log()]).exp()
    tensor([0.4000, 0.6000])
    """
    each = torch.stack([log_probs(one) for one in logits])
    return each.logsumexp(dim=0) - math.log(len(logits))


def joined_source(each: Sequence[Sequence[int]], starts: Sequence[int]) -> list[int]:
    """One text's ids as each member reads it -> one source: each member's ids from its start on.

    >>> joined_source([[4], [4, 5]], starts=(0, 10))
    [4, 14, 15]
    """
    return [start + i for start, ids in zip(starts, each, strict=True) for i in ids]


def split_sources(source: Tensor, starts: Sequence[int]) -> list[Tensor]:
    """Joined sources (B, S), each with its end token -> what each member reads (B, S_m).

    >>> split_sources(torch.tensor([[4, 14, 15, 2]]), starts=(0, 10))
    [tensor([[4, 2]]), tensor([[4, 5, 2]])]
    """
    spoken = (source != PAD_ID) & (source != END_ID)
    places = torch.arange(source.shape[1], device=source.device)

    def read(start: int, end: float) -> Tensor:
        own = spoken & (source >= start) & (source < end)
        own_first = own.int().argsort(dim=1, descending=True, stable=True)
        ids, lengths = (source - start).gather(1, own_first), own.sum(dim=1, keepdim=True)
        ids = ids.masked_fill(places == lengths, END_ID).masked_fill(places > lengths, PAD_ID)
        return ids[:, : int(lengths.max()) + 1]

    return list(map(read, starts, (*starts[1:], math.inf)))


class Ensemble(nn.Module):
    """Generators of one target vocabulary, as one generator."""

    def __init__(
        self, members: Sequence[nn.Module], config: Any = None, source_starts: Sequence[int] = ()
    ) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)
        self.config = config
        """What is true of all members, such as their vocabulary and the longest text they take."""
        self.source_starts = tuple(source_starts)
        """Where each member's ids begin in a joined source; none where all read the same ids."""

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Source (B, …), target ids (B, T) -> log-probabilities (B, T, V)."""
        pairs = zip(self._generators(), self._sources(source), strict=True)
        return mean_log_probs([member(read, target) for member, read in pairs])

    def encode(self, source: Tensor) -> MemberValues:
        """Source (B, …) -> what each member remembers of it."""
        pairs = zip(self._generators(), self._sources(source), strict=True)
        return MemberValues(tuple(member.encode(read) for member, read in pairs))

    def start(self, memory: MemberValues) -> MemberValues:
        """The states before the first target token."""
        pairs = zip(self._generators(), memory.values, strict=True)
        return MemberValues(tuple(one.start(remembered) for one, remembered in pairs))

    def step(
        self, ids: Tensor, memory: MemberValues, state: MemberValues
    ) -> tuple[Tensor, MemberValues]:
        """Last target ids (B,) -> log-probabilities (B, V) of the next, and the new states."""
        each = zip(self._generators(), memory.values, state.values, strict=True)
        logits, states = zip(*(one.step(ids, *values) for one, *values in each), strict=True)
        return mean_log_probs(logits), MemberValues(states)

    def _sources(self, source: Tensor) -> list[Tensor]:
        """What each member reads."""
        if not self.source_starts:
            return [source] * len(self.members)
        return split_sources(source, self.source_starts)

    def _generators(self) -> list[Any]:
        return list(self.members)


def members_of(model: Any) -> list[Any]:
    """The models of an ensemble; any other model is the only one."""
    return list(model.members) if isinstance(model, Ensemble) else [model]
