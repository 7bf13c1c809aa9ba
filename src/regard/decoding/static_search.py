"""Greedy and beam search that stay on the device: those of ``greedy`` and ``search``, in place.

For models with a static cache (``protocol.StaticGenerator``). A step is repeated until all
sentences have ended. On a GPU it is captured as a CUDA graph, and what a beam search does in it is
one kernel: launching its pieces takes longer than computing them. The host launches the next step
before it looks at what the last one ended, so the device never waits, at the price of one step too
many. Sentences that have ended leave when the others fit into a smaller captured size.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, partial
from typing import TypeGuard, TypeVar

import torch
from torch import Tensor
from typing_extensions import override

from regard.core.numbers import power_of_two
from regard.decoding.cuda_graphs import Graphed, HostCopy, shared_pool
from regard.decoding.hypothesis import Hypothesis, penalty
from regard.decoding.protocol import N_SUPPRESSED, Generator, StaticCache, StaticGenerator
from regard.decoding.search import (
    BeamSettings,
    Search,
    advance,
    expand,
    first_ended,
    read,
    stops,
    until,
)
from regard.decoding.wanted import check_wanted
from regard.kernels.gpu import HAS_TRITON
from regard.kernels.steps import Best, note
from regard.text.specials import BEGIN_ID, END_ID, PAD_ID

MOST_BEAMS = 16
"""That the kernel can do."""
SIZES = (1, 4, 16, *(2**i for i in range(5, 16)))
"""Numbers of sentences that steps are captured for."""
WORTH_MOVING = 1 / 8
"""Where nothing is captured, so many of the sentences must have ended before the rest moves."""
FEWEST_STEPS, FEWEST_TOKENS = 64, 2048
"""A cache has at least this much, so that the next batch fits too."""
MOST_SLOTS = 2**18
"""Rows × steps up to which a captured cache grows to fit this batch and those before."""
MOST_SEARCHES = 8
"""Ways to search whose caches and CUDA graphs are kept: the latest ones."""


class StaticSearch(ABC):
    """A static cache with what one kind of search keeps beside it, and its captured steps."""

    def __init__(self, cache: StaticCache, n_beams: int) -> None:
        self.cache = cache
        self.n_beams = n_beams
        n_sentences = cache.n_rows // n_beams
        self.ended = torch.ones(n_sentences, dtype=torch.int8, device=cache.ids.device)
        """(B,): 1 where a sentence has ended."""
        self.captured = are_captured(cache)
        """Whether steps exist for some sizes only, and are not waited for."""
        self._steps: dict[int, Graphed] = {}
        self._pool = shared_pool(cache.ids.device)
        self._owners = torch.arange(cache.n_rows, device=cache.ids.device) // n_beams
        self._copies = (HostCopy(self.ended), HostCopy(self.ended))

    @abstractmethod
    def work(self, n: int) -> None:
        """One step of the first n sentences; never waits for the device."""

    @abstractmethod
    def changes(self) -> Sequence[Tensor]:
        """All tensors that a step changes and later ones depend on."""

    @abstractmethod
    def move(self, staying: Tensor, leaving: Tensor) -> None:
        """Some sentences, by index, go on at 0, 1, …; others leave, which have ended."""

    def clear(self) -> None:
        """Every hypothesis begins, and every sentence has ended."""
        self.cache.ids.fill_(BEGIN_ID)
        self.cache.positions.zero_()
        self.cache.owners.copy_(self._owners)
        self.ended.fill_(1)

    @cached_property
    def _clearing(self) -> Graphed:
        changes = (self.cache.owners, *self.changes())
        return Graphed(self.clear, changes=changes, pool=self._pool)

    def begin(self, source: Tensor) -> None:
        """Read the sources (B, S); their sentences are to be written."""
        self.cache.read(source)
        self._clearing()
        self.ended[: len(source)] = 0
        self.cache.owners[len(source) * self.n_beams :] = 0

    def run(self, n: int, n_steps: int) -> int:
        """Step until all of the first n sentences have ended, which takes at most ``n_steps``.

        Returns how many sentences are there in the end.
        """
        size, before = (size_for(n) if self.captured else n), None
        for t in range(n_steps):
            check_wanted()
            self._step(size)
            now = self._copies[t % 2]
            now.post(self.ended[:size])
            latest, before = (before, now) if self.captured else (now, None)
            if latest is None:
                continue
            ended = latest.read()
            n_open = ended.count(0)
            if n_open == 0:
                break
            smaller = size_for(n_open) if self.captured else n_open
            if smaller < size and (self.captured or size - n_open >= WORTH_MOVING * size):
                self._shrink(ended, smaller)
                size, before = smaller, None
        return size

    def _step(self, size: int) -> None:
        if size not in self._steps:
            work = partial(self.work, size)
            self._steps[size] = Graphed(work, changes=self.changes(), pool=self._pool)
        self._steps[size]()

    def _shrink(self, ended: list[int], size: int) -> None:
        """Move those together that are open; where there is more space, one that has ended."""
        staying = [i for i, one in enumerate(ended) if not one]
        leaving = [i for i, one in enumerate(ended) if one]
        staying += leaving[:1] * (size - len(staying))
        device = self.ended.device
        self.move(torch.tensor(staying).to(device), torch.tensor(leaving).to(device))


def are_captured(cache: StaticCache) -> bool:
    """Whether steps with this cache are replayed from CUDA graphs."""
    return cache.ids.is_cuda


def moved(tensors: Iterable[Tensor], rows: Tensor) -> None:
    """These rows of each tensor, at 0, 1, …"""
    for tensor in tensors:
        tensor[: len(rows)] = tensor[rows]


AnySearch = TypeVar("AnySearch", bound=StaticSearch)


def search_for(
    model: StaticGenerator,
    kind: tuple[object, ...],
    needed: tuple[int, int, int],
    n_beams: int,
    make: Callable[[StaticCache], AnySearch],
) -> AnySearch:
    """The search of that kind which was used before, or a new one if its cache is too small.

    ``needed`` are rows, steps and tokens. Where CUDA graphs are lost with a cache, the new one has
    also what the old one had, within reason.
    """
    known: AnySearch | None = model.searches.pop(kind, None)
    if known is not None:
        cache = known.cache
        had = (cache.n_rows, cache.n_steps, cache.n_tokens)
        if all(a >= b for a, b in zip(had, needed, strict=True)):
            model.searches[kind] = known
            return known
        both = (max(had[0], needed[0]), max(had[1], needed[1]), max(had[2], needed[2]))
        if known.captured and both[0] * both[1] <= MOST_SLOTS:
            needed = both
        del known, cache  # their memory is wanted
    while len(model.searches) >= MOST_SEARCHES:
        del model.searches[next(iter(model.searches))]
    search = model.searches[kind] = make(model.cache(*needed, n_beams))
    return search


def cache_needed(source: Tensor, n_beams: int, longest: int) -> tuple[int, int, int]:
    """Rows, steps and source tokens, rounded up so that few different caches are asked for."""
    B, S = source.shape
    tokens = max(FEWEST_TOKENS, power_of_two(B * (S + 15)))  # a model may pad sources
    return size_for(B) * n_beams, max(FEWEST_STEPS, power_of_two(longest)), tokens


def can_stay(model: Generator, limits: Tensor, n_beams: int) -> TypeGuard[StaticGenerator]:
    """Whether the model can do this work in place."""
    if not isinstance(model, StaticGenerator) or model.n_vocab < 2 * n_beams + N_SUPPRESSED:
        return False
    return model.longest is None or int(limits.max()) <= model.longest


def size_for(n: int) -> int:
    """The smallest captured size that holds n."""
    return next((size for size in SIZES if size >= n), n)


@torch.inference_mode()
def static_greedy(
    model: StaticGenerator, source: Tensor, limits: Tensor, *, length_penalty: float
) -> list[Hypothesis]:
    """Greedy search for sources (B, S) with at most ``limits`` (B,) tokens."""
    longest = int(limits.max())
    with model.lock:
        search = search_for(model, ("greedy",), cache_needed(source, 1, longest), 1, StaticGreedy)
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
        return [Hypothesis.read(until(ids, PAD_ID), p, length_penalty) for ids, p in rows]

    @override
    def clear(self) -> None:
        super().clear()
        self.written.fill_(PAD_ID)
        self.log_prob.zero_()

    @override
    def work(self, n: int) -> None:
        cache = self.cache
        best = cache.best(n, 1, n_hidden=N_SUPPRESSED)
        ids, positions, owners = cache.ids[:n], cache.positions[:n], cache.owners[:n]
        ended, sentences = self.ended[:n], (self.limits, self.written, self.log_prob)
        note(best, ids, positions, owners, ended, *sentences, end=END_ID)

    @override
    def changes(self) -> Sequence[Tensor]:
        return *self.cache.changes(), self.ended, self.written, self.log_prob

    @override
    def move(self, staying: Tensor, leaving: Tensor) -> None:
        self.cache.move(staying)
        moved((self.ended,), staying)


@torch.inference_mode()
def static_beam_search(
    model: StaticGenerator, source: Tensor, limits: Tensor, settings: BeamSettings
) -> list[list[Hypothesis]]:
    """Beam search for sources (B, S) with at most ``limits`` (B,) tokens."""
    longest, n_beams = int(limits.max()), settings.n_beams
    with model.lock:
        needed = cache_needed(source, n_beams, longest)
        make = partial(StaticBeam, settings=settings)
        search = search_for(model, ("beam", settings), needed, n_beams, make)
        return search.find(source, limits, longest)


class StaticBeam(StaticSearch):
    """K rows a sentence. Sentences that have ended stay as they were when they did."""

    def __init__(self, cache: StaticCache, settings: BeamSettings) -> None:
        super().__init__(cache, settings.n_beams)
        nothing = torch.zeros_like(self.ended, dtype=torch.int64)
        # One position more: sentences at their limit are advanced too, though it does not count.
        self.search = Search.begin(nothing, settings, longest=cache.n_steps + 1)
        ids, log_prob = self.search.open
        lengths = torch.arange(ids.shape[2], dtype=log_prob.dtype, device=ids.device)
        self.penalties = penalty(lengths, settings.length_penalty)
        """(2 + L,): of hypotheses of so many tokens."""
        self.left: list[Search] = []
        """Sentences that have ended and left."""

    def find(self, source: Tensor, limits: Tensor, longest: int) -> list[list[Hypothesis]]:
        """The hypotheses of each sentence (B, S)."""
        B, search = len(source), self.search
        self.begin(source)
        self.left.clear()
        search.limits[:B] = limits
        n_left = self.run(B, longest)
        found: dict[int, list[Hypothesis]] = {}
        for part in (*self.left, search.at(slice(n_left))):
            found |= read(part)
        return [found[sentence] for sentence in range(B)]

    @override
    def clear(self) -> None:
        super().clear()
        search, longest = self.search, self.search.open.ids.shape[2] - 1
        fresh = Search.begin(torch.zeros_like(search.limits), search.settings, longest)
        for old, new in zip(_all(search), _all(fresh), strict=True):
            old.copy_(new)

    @override
    def work(self, n: int) -> None:
        search, K = self.search.at(slice(n)), self.n_beams
        best = self.cache.best(n * K, 2 * K, n_hidden=N_SUPPRESSED)
        advance_in_place(search, best, self.cache, self.ended[:n], self.penalties)

    @override
    def changes(self) -> Sequence[Tensor]:
        return *self.cache.changes(), self.ended, *self.search.tensors()

    @override
    def move(self, staying: Tensor, leaving: Tensor) -> None:
        K = self.n_beams
        self.left.append(self.search.at(leaving))
        rows = staying.unsqueeze(1) * K + torch.arange(K, device=staying.device)
        self.cache.move(rows.flatten())
        moved((self.ended, *_all(self.search)), staying)


def _all(search: Search) -> tuple[Tensor, ...]:
    return search.sentences, search.limits, *search.tensors()


def advance_in_place(
    search: Search, best: Best, cache: StaticCache, ended: Tensor, penalties: Tensor
) -> None:
    """One token further, given the best continuations (B·K, n) of the rows in the cache.

    The search and the cache become those of the next step, and ``ended`` (B,) says who has ended;
    sentences that had before stay as they were. ``penalties``: see ``hypothesis``, by length. The
    kernel is for caches in which a ``table`` (P, L) is all that is reordered: it says in which row
    each position of a row's past lies.
    """
    table: Tensor | None = getattr(cache, "table", None)
    if runs_kernels(cache) and search.settings.n_beams <= MOST_BEAMS and table is not None:
        from regard.kernels.gpu import beam_search

        known = beam_search.Known(*search.tensors())
        beam_search.go_on(
            best.log_prob, best.ids, known, search.limits, penalties,
            ended, cache.ids, cache.positions, table, end=END_ID,
        )  # fmt: skip
        if search.settings.stop == "first":  # the kernel's rule is ``exact``, which stops later
            ended |= first_ended(search).to(ended.dtype)
        return
    later, _, parents = advance(search, expand(search, best))
    stopped = stops(later) | (ended != 0)
    for old, new in zip(search.tensors(), later.tensors(), strict=True):
        had_ended = (ended != 0).view(-1, *[1] * (old.dim() - 1))
        torch.where(had_ended, old, new, out=old)
    ended.copy_(stopped)
    cache.reorder(parents)
    n_rows = parents.numel()
    cache.ids[:n_rows] = search.last
    cache.positions[:n_rows].add_(1).clamp_(max=cache.n_steps - 1)


def runs_kernels(cache: StaticCache) -> bool:
    """Whether our kernels can be run where the cache is."""
    return HAS_TRITON and cache.ids.is_cuda
