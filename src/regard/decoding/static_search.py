"""Greedy and beam search that stay on the device: what ``greedy`` and ``search`` say, in place.

On a GPU a step of a beam search takes longer to launch in pieces than to compute. There one kernel
does it all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeGuard, runtime_checkable

import torch
from torch import Tensor
from typing_extensions import override

from regard.decoding.hypothesis import Hypothesis, penalty
from regard.decoding.protocol import N_SUPPRESSED, StaticCache, StaticGenerator
from regard.decoding.search import (
    BeamSettings,
    Search,
    advance,
    expand,
    first_ended,
    read,
    stops,
)
from regard.decoding.static import StaticSearch, cache_needed, moved, search_for
from regard.kernels.gpu import HAS_TRITON
from regard.kernels.steps import Best, note
from regard.text.specials import END_ID, PAD_ID

MOST_BEAMS = 16
"""So many the kernel can do."""


@torch.inference_mode()
def static_greedy(
    model: StaticGenerator, source: Tensor, limits: Tensor, *, length_penalty: float
) -> list[Hypothesis]:
    """Greedy search for sources (B, S) with at most ``limits`` (B,) tokens."""
    longest = int(limits.max())
    with model.lock:
        needed = cache_needed(source, 1, longest)
        search = search_for(model, ("greedy",), needed, 1, StaticGreedy)
        return search.find(source, limits, longest, length_penalty)


class StaticGreedy(StaticSearch):
    """A row is a sentence. What is written lies where the sentence was asked for."""

    def __init__(self, cache: StaticCache) -> None:
        super().__init__(cache, n_beams=1)
        with cache.ids.device:
            self.limits = torch.zeros(cache.n_rows, dtype=torch.int32)
            self.written = torch.zeros(cache.n_rows, cache.n_steps, dtype=torch.int64)
            self.log_prob = torch.zeros(cache.n_rows)

    def find(
        self, source: Tensor, limits: Tensor, longest: int, length_penalty: float
    ) -> list[Hypothesis]:
        """The hypothesis of each sentence (B, S)."""
        B = len(source)
        self.begin(source)
        self.limits[:B] = limits
        self.run(B, longest)
        rows = zip(self.written[:B, :longest].tolist(), self.log_prob[:B].tolist(), strict=True)
        return [Hypothesis.read(_real(ids), p, length_penalty) for ids, p in rows]

    @override
    def clear(self) -> None:
        super().clear()
        self.written.fill_(PAD_ID)
        self.log_prob.zero_()

    @override
    def work(self, n: int) -> None:
        cache = self.cache
        best = cache.best(n, 1, n_hidden=N_SUPPRESSED)
        ids, places, owners = cache.ids[:n], cache.places[:n], cache.owners[:n]
        ended, sentences = self.ended[:n], (self.limits, self.written, self.log_prob)
        note(best, ids, places, owners, ended, *sentences, end=END_ID)

    @override
    def changes(self) -> Sequence[Tensor]:
        return *self.cache.changes(), self.ended, self.written, self.log_prob

    @override
    def move(self, going: Tensor, leaving: Tensor) -> None:
        self.cache.move(going)
        moved((self.ended,), going)


def _real(ids: list[int]) -> list[int]:
    """What was written: padding never is."""
    return ids[: ids.index(PAD_ID)] if PAD_ID in ids else ids


@torch.inference_mode()
def static_beam_search(
    model: StaticGenerator, source: Tensor, limits: Tensor, settings: BeamSettings
) -> list[list[Hypothesis]]:
    """Beam search for sources (B, S) with at most ``limits`` (B,) tokens."""
    longest, n_beams = int(limits.max()), settings.n_beams
    with model.lock:
        needed = cache_needed(source, n_beams, longest)
        search = search_for(
            model, ("beam", settings), needed, n_beams, lambda cache: StaticBeam(cache, settings)
        )
        found = search.find(source, limits, longest)
    return [found[sentence] for sentence in range(len(source))]


class StaticBeam(StaticSearch):
    """K rows a sentence. Sentences that have ended stay as they were when they did."""

    def __init__(self, cache: StaticCache, settings: BeamSettings) -> None:
        super().__init__(cache, settings.n_beams)
        nothing = torch.zeros(
            cache.n_rows // settings.n_beams, dtype=torch.int64, device=cache.ids.device
        )
        # One place more: sentences at their limit are advanced too, though it does not count.
        self.search = Search.begin(nothing, settings, longest=cache.n_steps + 1)
        lengths = torch.arange(self.search.open.ids.shape[2], device=cache.ids.device)
        dtype = self.search.open.log_prob.dtype
        self.penalties = penalty(lengths.to(dtype), settings.length_penalty)
        """(2 + L,): of hypotheses of so many tokens."""
        self.left: list[Search] = []
        """Sentences that have ended and left."""

    def find(self, source: Tensor, limits: Tensor, longest: int) -> dict[int, list[Hypothesis]]:
        """Sentence -> its hypotheses."""
        B, search = len(source), self.search
        self.begin(source)
        self.left.clear()
        search.limits[:B] = limits
        n_left = self.run(B, longest)
        found: dict[int, list[Hypothesis]] = {}
        for part in (*self.left, search.at(slice(n_left))):
            found |= read(part)
        return found

    @override
    def clear(self) -> None:
        super().clear()
        search, limits = self.search, torch.zeros_like(self.search.limits)
        longest = search.open.ids.shape[2] - 1
        fresh = Search.begin(limits, search.settings, longest)
        for old, new in zip(_all(search), _all(fresh), strict=True):
            old.copy_(new)

    @override
    def work(self, n: int) -> None:
        search, K = self.search.at(slice(n)), self.n_beams
        best = self.cache.best(n * K, 2 * K, n_hidden=N_SUPPRESSED)
        go_on(search, best, self.cache, self.ended[:n], self.penalties)

    @override
    def changes(self) -> Sequence[Tensor]:
        return *self.cache.changes(), self.ended, *self.search.tensors()

    @override
    def move(self, going: Tensor, leaving: Tensor) -> None:
        K = self.n_beams
        self.left.append(self.search.at(leaving))
        self.cache.move((going.unsqueeze(1) * K + torch.arange(K, device=going.device)).flatten())
        moved((self.ended, *_all(self.search)), going)


def _all(search: Search) -> tuple[Tensor, ...]:
    return search.sentences, search.limits, *search.tensors()


@runtime_checkable
class TableCache(StaticCache, Protocol):
    """A cache in which to reorder is to permute the rows of a table."""

    table: Tensor
    """(P, L) int32: in which row each position of a row's past lies."""


def go_on(search: Search, best: Best, cache: StaticCache, ended: Tensor, penalties: Tensor) -> None:
    """One token further, given the best continuations (B·K, n) of the rows in the cache.

    The search and the cache become those of the next step, and ``ended`` (B,) says who has ended;
    sentences that had before stay as they were. ``penalties``: see ``hypothesis``, by length.
    """
    if not _is_for_kernel(cache, search.settings.n_beams):
        _go_on(search, best, cache, ended)
        return
    from regard.kernels.gpu import beam_search

    known = beam_search.Known(*search.tensors())
    beam_search.go_on(
        best.log_prob, best.ids, known, search.limits, penalties,
        ended, cache.ids, cache.places, cache.table, end=END_ID,
    )  # fmt: skip
    if search.settings.stop == "first":  # by then the kernel, which is exact, has not stopped yet
        ended |= first_ended(search).to(ended.dtype)


def runs_kernels(cache: StaticCache) -> bool:
    """Whether our kernels can be run where the cache is."""
    return HAS_TRITON and cache.ids.is_cuda


def _is_for_kernel(cache: StaticCache, n_beams: int) -> TypeGuard[TableCache]:
    """Whether the kernel can do it: beams are few, and a table is all that is reordered."""
    return runs_kernels(cache) and n_beams <= MOST_BEAMS and isinstance(cache, TableCache)


def _go_on(search: Search, best: Best, cache: StaticCache, ended: Tensor) -> None:
    """What the kernel owes."""
    later = advance(search, expand(search, best))
    stopped = stops(later.search) | (ended != 0)
    for old, new in zip(search.tensors(), later.search.tensors(), strict=True):
        had_ended = (ended != 0).view(-1, *[1] * (old.dim() - 1))
        torch.where(had_ended, old, new, out=old)
    ended.copy_(stopped)
    cache.reorder(later.parents)
    n_rows = later.parents.numel()
    cache.ids[:n_rows] = search.last
    cache.places[:n_rows].add_(1).clamp_(max=cache.n_steps - 1)
