"""Searches that stay on the device: a step is played again until all sentences have ended.

For models that offer a static form of themselves (``protocol.Static``). The host launches the next
step before it looks at what the last one ended; so the device never waits, at the price of one
step too many. Sentences that have ended leave when the others fit into a smaller recorded size.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TypeGuard, TypeVar

import torch
from torch import Tensor

from regard.core.numbers import power_of_two
from regard.decoding.cuda_graph import Recorded, shared_pool
from regard.decoding.protocol import Generator, Room, Static
from regard.decoding.steps import N_HIDDEN
from regard.text.specials import BEGIN_ID

SIZES = (1, 4, 16, *(2**i for i in range(5, 16)))
"""Numbers of sentences that steps are recorded for."""
WORTH_MOVING = 1 / 8
"""Where nothing is recorded, so many of the sentences must have ended before the rest moves."""
FEWEST_STEPS, FEWEST_TOKENS = 64, 2048
"""A room has at least this much, so that the next batch fits too."""
MOST_SLOTS = 2**18
"""Rows × steps up to which a recorded room grows to fit this batch and those before."""
MOST_DESKS = 8
"""Ways to search whose rooms and recordings are kept: the latest ones."""


class Desk(ABC):
    """A room with what one kind of search keeps beside it, and its recorded steps."""

    def __init__(self, room: Room, n_beams: int) -> None:
        self.room = room
        self.n_beams = n_beams
        n_sentences = room.n_rows // n_beams
        self.ended = torch.ones(n_sentences, dtype=torch.int8, device=room.ids.device)
        """(B,): 1 where a sentence has ended."""
        self.recorded = are_recorded(room)
        """Whether steps exist for a few sizes only, and are not waited for."""
        self._steps: dict[int, Recorded] = {}
        self._pool = shared_pool(room.ids.device)
        self._owners = torch.arange(room.n_rows, device=room.ids.device).div_(
            n_beams, rounding_mode="floor"
        )
        self._cleared: Recorded | None = None
        self._glances = (Glance(self.ended), Glance(self.ended))

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
        self.room.ids.fill_(BEGIN_ID)
        self.room.places.zero_()
        self.room.owners.copy_(self._owners)
        self.ended.fill_(1)

    def begin(self, source: Tensor) -> None:
        """Read the sources (B, S); their sentences are to be written."""
        self.room.read(source)
        if self._cleared is None:
            changes = (self.room.owners, *self.changes())
            self._cleared = Recorded(self.clear, changes=changes, pool=self._pool)
        self._cleared()
        self.ended[: len(source)] = 0
        self.room.owners[len(source) * self.n_beams :] = 0

    def run(self, n: int, n_steps: int) -> int:
        """Step until all of the first n sentences have ended, which takes at most ``n_steps``.

        Returns how many sentences are there in the end.
        """
        size, before = (size_for(n) if self.recorded else n), None
        for t in range(n_steps):
            self._step(size)
            now = self._glances[t % 2]
            now.post(self.ended[:size])
            latest, before = (before, now) if self.recorded else (now, None)
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
        if self.recorded:
            return size_for(n_going)
        return n_going if size - n_going >= WORTH_MOVING * size else size

    def _step(self, size: int) -> None:
        if size not in self._steps:
            work = partial(self.work, size)
            self._steps[size] = Recorded(work, changes=self.changes(), pool=self._pool)
        self._steps[size]()

    def _shrink(self, ended: list[int], size: int) -> int:
        """Move those together that are going; where there is more room, one that has ended."""
        going, leaving = ([i for i, one in enumerate(ended) if one == which] for which in (0, 1))
        going += leaving[:1] * (size - len(going))
        device = self.ended.device
        self.move(torch.tensor(going).to(device), torch.tensor(leaving).to(device))
        return size


def are_recorded(room: Room) -> bool:
    """Whether steps in this room are played from recordings."""
    return room.ids.is_cuda


def moved(tensors: Iterable[Tensor], rows: Tensor) -> None:
    """These rows of each tensor, at 0, 1, …"""
    for tensor in tensors:
        tensor[: len(rows)] = tensor[rows]


class Glance:
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


AnyDesk = TypeVar("AnyDesk", bound=Desk)


def desk_for(
    writer: Static,
    kind: tuple[object, ...],
    needed: tuple[int, int, int],
    n_beams: int,
    make: Callable[[Room], AnyDesk],
) -> AnyDesk:
    """The desk of that kind which was used before, or a new one if its room is too small.

    ``needed`` are rows, steps and tokens. Where recordings are lost with a room, the new one has
    also what the old one had, within reason.
    """
    known: AnyDesk | None = writer.kept.pop(kind, None)
    if known is not None:
        room = known.room
        had = (room.n_rows, room.n_steps, room.n_tokens)
        if all(a >= b for a, b in zip(had, needed, strict=True)):
            writer.kept[kind] = known
            return known
        both = (max(had[0], needed[0]), max(had[1], needed[1]), max(had[2], needed[2]))
        if known.recorded and both[0] * both[1] <= MOST_SLOTS:
            needed = both
        del known, room  # their memory is wanted
    while len(writer.kept) >= MOST_DESKS:
        del writer.kept[next(iter(writer.kept))]
    desk = writer.kept[kind] = make(writer.room(*needed, n_beams))
    return desk


def room_needed(source: Tensor, n_beams: int, longest: int) -> tuple[int, int, int]:
    """Rows, steps and source tokens, rounded up so that few different rooms are asked for."""
    B, S = source.shape
    tokens = B * (S + 15)  # a model may pad sources
    return (
        size_for(B) * n_beams,
        max(FEWEST_STEPS, power_of_two(longest)),
        max(FEWEST_TOKENS, power_of_two(tokens)),
    )


def can_stay(model: Generator, limits: Tensor, n_beams: int) -> TypeGuard[Static]:
    """Whether the model can do this work in place."""
    if not isinstance(model, Static) or model.n_vocab < 2 * n_beams + N_HIDDEN:
        return False
    return model.longest is None or int(limits.max()) <= model.longest


def size_for(n: int) -> int:
    """The smallest recorded size that holds n."""
    return next((size for size in SIZES if size >= n), n)
