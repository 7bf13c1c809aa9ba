"""Searches that stay on the device: a step is replayed until all sentences have ended.

For models with a static cache (``protocol.StaticGenerator``). On a GPU a step is captured as a CUDA
graph. The host launches the next step before it looks at what the last one ended; so the device
never waits, at the price of one step too many. Sentences that have ended leave when the others fit
into a smaller captured size.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, TypeGuard, TypeVar

import torch
from torch import Tensor

from regard.core.numbers import power_of_two
from regard.decoding.protocol import N_SUPPRESSED, Generator, StaticCache, StaticGenerator
from regard.text.specials import BEGIN_ID

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


class Graphed:
    """Does ``work``; on a GPU it is captured as a CUDA graph the first time, elsewhere just done.

    The work must not wait for the device, and all it leaves behind are changes to the tensors
    named in ``changes``: trying it out before the capture is undone in them.
    """

    def __init__(
        self, work: Callable[[], None], *, changes: Sequence[Tensor], pool: Any = None
    ) -> None:
        self.work = work
        self.changes = changes
        self.pool = pool
        self.graph: torch.cuda.CUDAGraph | None = None

    def __call__(self) -> None:
        """Do it once."""
        if not self.changes[0].is_cuda:
            self.work()
            return
        if self.graph is None:
            self._try_out()
            self.graph = self._capture()
        self.graph.replay()

    def _try_out(self) -> None:
        """Compile and warm up whatever needs it, aside, and undo what it did."""
        kept = [tensor.clone() for tensor in self.changes]
        here, aside = torch.cuda.current_stream(), torch.cuda.Stream()
        aside.wait_stream(here)
        with torch.cuda.stream(aside):
            for _ in range(2):
                self.work()
        here.wait_stream(aside)
        for tensor, before in zip(self.changes, kept, strict=True):
            tensor.copy_(before)

    def _capture(self) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool, capture_error_mode="thread_local"):
            self.work()
        return graph


def shared_pool(device: torch.device) -> Any:
    """Memory for CUDA graphs that never run at once; None where nothing is captured."""
    return torch.cuda.graph_pool_handle() if device.type == "cuda" else None


class StaticSearch(ABC):
    """A static cache with what one kind of search keeps beside it, and its captured steps."""

    def __init__(self, cache: StaticCache, n_beams: int) -> None:
        self.cache = cache
        self.n_beams = n_beams
        n_sentences = cache.n_rows // n_beams
        self.ended = torch.ones(n_sentences, dtype=torch.int8, device=cache.ids.device)
        """(B,): 1 where a sentence has ended."""
        self.captured = are_captured(cache)
        """Whether steps exist for a few sizes only, and are not waited for."""
        self._steps: dict[int, Graphed] = {}
        self._pool = shared_pool(cache.ids.device)
        self._owners = torch.arange(cache.n_rows, device=cache.ids.device).div_(
            n_beams, rounding_mode="floor"
        )
        self._cleared: Graphed | None = None
        self._copies = (HostCopy(self.ended), HostCopy(self.ended))

    @abstractmethod
    def work(self, n: int) -> None:
        """One step of the first n sentences; never waits for the device."""

    @abstractmethod
    def changes(self) -> Sequence[Tensor]:
        """All tensors that a step changes and later ones depend on."""

    @abstractmethod
    def move(self, going: Tensor, leaving: Tensor) -> None:
        """Some sentences, by index, go on at 0, 1, …; others leave, which have ended."""

    def clear(self) -> None:
        """Every hypothesis begins, and every sentence has ended."""
        self.cache.ids.fill_(BEGIN_ID)
        self.cache.places.zero_()
        self.cache.owners.copy_(self._owners)
        self.ended.fill_(1)

    def begin(self, source: Tensor) -> None:
        """Read the sources (B, S); their sentences are to be written."""
        self.cache.read(source)
        if self._cleared is None:
            changes = (self.cache.owners, *self.changes())
            self._cleared = Graphed(self.clear, changes=changes, pool=self._pool)
        self._cleared()
        self.ended[: len(source)] = 0
        self.cache.owners[len(source) * self.n_beams :] = 0

    def run(self, n: int, n_steps: int) -> int:
        """Step until all of the first n sentences have ended, which takes at most ``n_steps``.

        Returns how many sentences are there in the end.
        """
        size, before = (size_for(n) if self.captured else n), None
        for t in range(n_steps):
            self._step(size)
            now = self._copies[t % 2]
            now.post(self.ended[:size])
            latest, before = (before, now) if self.captured else (now, None)
            if latest is None:
                continue
            ended = latest.read()
            n_going = ended.count(0)
            if n_going == 0:
                break
            if self._smaller(n_going, size) < size:
                size, before = self._shrink(ended, self._smaller(n_going, size)), None
        return size

    def _smaller(self, n_going: int, size: int) -> int:
        """The size to go on with."""
        if self.captured:
            return size_for(n_going)
        return n_going if size - n_going >= WORTH_MOVING * size else size

    def _step(self, size: int) -> None:
        if size not in self._steps:
            work = partial(self.work, size)
            self._steps[size] = Graphed(work, changes=self.changes(), pool=self._pool)
        self._steps[size]()

    def _shrink(self, ended: list[int], size: int) -> int:
        """Move those together that are going; where there is more space, one that has ended."""
        going, leaving = ([i for i, one in enumerate(ended) if one == which] for which in (0, 1))
        going += leaving[:1] * (size - len(going))
        device = self.ended.device
        self.move(torch.tensor(going).to(device), torch.tensor(leaving).to(device))
        return size


def are_captured(cache: StaticCache) -> bool:
    """Whether steps with this cache are replayed from CUDA graphs."""
    return cache.ids.is_cuda


def moved(tensors: Iterable[Tensor], rows: Tensor) -> None:
    """These rows of each tensor, at 0, 1, …"""
    for tensor in tensors:
        tensor[: len(rows)] = tensor[rows]


class HostCopy:
    """What a tensor held a moment ago, fetched without holding up the device."""

    def __init__(self, like: Tensor) -> None:
        self.event = torch.cuda.Event() if like.is_cuda else None
        self.copy = torch.empty(like.shape, dtype=like.dtype, pin_memory=like.is_cuda)
        self.n = 0

    def post(self, tensor: Tensor) -> None:
        """Ask for the tensor (n,) as it will be when the device comes here."""
        self.n = len(tensor)
        self.copy[: self.n].copy_(tensor, non_blocking=True)
        if self.event is not None:
            self.event.record()

    def read(self) -> list[int]:
        """What it was, once the device has come there."""
        if self.event is not None:
            self.event.synchronize()
        return self.copy[: self.n].tolist()


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
    tokens = B * (S + 15)  # a model may pad sources
    return (
        size_for(B) * n_beams,
        max(FEWEST_STEPS, power_of_two(longest)),
        max(FEWEST_TOKENS, power_of_two(tokens)),
    )


def can_stay(model: Generator, limits: Tensor, n_beams: int) -> TypeGuard[StaticGenerator]:
    """Whether the model can do this work in place."""
    if not isinstance(model, StaticGenerator) or model.n_vocab < 2 * n_beams + N_SUPPRESSED:
        return False
    return model.longest is None or int(limits.max()) <= model.longest


def size_for(n: int) -> int:
    """The smallest captured size that holds n."""
    return next((size for size in SIZES if size >= n), n)
