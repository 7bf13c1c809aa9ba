"""Beam search that stays on the device: the same search, played again."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from regard.decoding.hypothesis import Hypothesis, penalty
from regard.decoding.in_place import go_on
from regard.decoding.protocol import Room, Static
from regard.decoding.search import Search, read
from regard.decoding.static import Desk, desk_for, moved, room_needed
from regard.decoding.steps import N_HIDDEN


@torch.inference_mode()
def static_beam_search(
    writer: Static, source: Tensor, limits: Tensor, *, n_beams: int, n_best: int, alpha: float
) -> list[list[Hypothesis]]:
    """As ``beam_search``, with a model that writes in place."""
    longest = int(limits.max())
    kind = ("beam", n_beams, n_best, alpha)
    make = partial(BeamDesk, n_beams=n_beams, n_best=n_best, alpha=alpha)
    with writer.lock:
        desk = desk_for(writer, kind, room_needed(source, n_beams, longest), n_beams, make)
        found = desk.find(source, limits, longest)
    return [found[sentence] for sentence in range(len(source))]


class BeamDesk(Desk):
    """K rows a sentence. Sentences that have ended stay as they were when they did."""

    def __init__(self, room: Room, *, n_beams: int, n_best: int, alpha: float) -> None:
        super().__init__(room, n_beams)
        n_sentences = room.n_rows // n_beams
        nothing = torch.zeros(n_sentences, dtype=torch.int64, device=room.ids.device)
        # One place more: sentences at their limit are advanced too, though it does not count.
        self.search = Search.begin(nothing, n_beams, n_best, alpha, room=room.n_steps + 1)
        lengths = torch.arange(self.search.open.ids.shape[2], device=room.ids.device)
        self.penalties = penalty(lengths.to(self.search.open.log_prob.dtype), alpha)
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
        for part in (*self.left, search.first(n_left)):
            found |= read(part)
        return found

    def clear(self) -> None:
        """As ``Desk.clear``."""
        super().clear()
        search, limits = self.search, torch.zeros_like(self.search.limits)
        n_best, room = search.finished.score.shape[1], search.open.ids.shape[2] - 1
        fresh = Search.begin(limits, self.n_beams, n_best, search.alpha, room=room)
        for old, new in zip(_all(search), _all(fresh), strict=True):
            old.copy_(new)

    def work(self, n: int) -> None:
        """As ``Desk.work``."""
        room, search, ended, K = self.room, self.search.first(n), self.ended[:n], self.n_beams
        best = room.best(n * K, 2 * K, n_hidden=N_HIDDEN)
        go_on(search, best, room, ended, self.penalties)

    def changes(self) -> Sequence[Tensor]:
        """As ``Desk.changes``."""
        return *self.room.changes(), self.ended, *self.search.tensors()

    def move(self, going: Tensor, leaving: Tensor) -> None:
        """As ``Desk.move``."""
        K = self.n_beams
        self.left.append(self.search.select(leaving))
        self.room.move((going.unsqueeze(1) * K + torch.arange(K, device=going.device)).flatten())
        moved((self.ended, *_all(self.search)), going)


def _all(search: Search) -> tuple[Tensor, ...]:
    return search.sentences, search.limits, *search.tensors()
