"""Greedy search that stays on the device."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.decoding.hypothesis import Hypothesis
from regard.decoding.protocol import Room, Static
from regard.decoding.static import Desk, desk_for, moved, room_needed
from regard.decoding.steps import N_HIDDEN
from regard.kernels.steps import note
from regard.text.specials import END_ID, PAD_ID


@torch.inference_mode()
def static_greedy(
    writer: Static, source: Tensor, limits: Tensor, *, length_penalty: float
) -> list[Hypothesis]:
    """As ``greedy``, with a model that writes in place."""
    longest = int(limits.max())
    with writer.lock:
        desk = desk_for(writer, ("greedy",), room_needed(source, 1, longest), 1, GreedyDesk)
        return desk.search(source, limits, longest, length_penalty)


class GreedyDesk(Desk):
    """A row is a sentence. What is written lies where the sentence was asked for."""

    def __init__(self, room: Room) -> None:
        super().__init__(room, n_beams=1)
        with room.ids.device:
            self.limits = torch.zeros(room.n_rows, dtype=torch.int32)
            self.written = torch.zeros(room.n_rows, room.n_steps, dtype=torch.int64)
            self.log_prob = torch.zeros(room.n_rows)

    def search(
        self, source: Tensor, limits: Tensor, longest: int, length_penalty: float
    ) -> list[Hypothesis]:
        """The hypothesis of each sentence (B, S)."""
        B = len(source)
        self.begin(source)
        self.limits[:B] = limits
        self.run(B, longest)
        rows = zip(self.written[:B, :longest].tolist(), self.log_prob[:B].tolist(), strict=True)
        return [Hypothesis.read(_real(ids), p, length_penalty) for ids, p in rows]

    def clear(self) -> None:
        """As ``Desk.clear``."""
        super().clear()
        self.written.fill_(PAD_ID)
        self.log_prob.zero_()

    def work(self, n: int) -> None:
        """As ``Desk.work``."""
        room = self.room
        best = room.best(n, 1, n_hidden=N_HIDDEN)
        ids, places, owners = room.ids[:n], room.places[:n], room.owners[:n]
        ended, sentences = self.ended[:n], (self.limits, self.written, self.log_prob)
        note(best, ids, places, owners, ended, *sentences, end=END_ID)

    def changes(self) -> Sequence[Tensor]:
        """As ``Desk.changes``."""
        return *self.room.changes(), self.ended, self.written, self.log_prob

    def move(self, going: Tensor, leaving: Tensor) -> None:
        """As ``Desk.move``."""
        self.room.move(going)
        moved((self.ended,), going)


def _real(ids: list[int]) -> list[int]:
    """What was written: padding never is."""
    return ids[: ids.index(PAD_ID)] if PAD_ID in ids else ids
