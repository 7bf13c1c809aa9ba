"""One step of a beam search in place: what ``search`` says, written over what was known.

On a GPU that takes longer to launch in pieces than to compute. There one kernel does it all.
"""

from __future__ import annotations

from typing import Protocol, TypeGuard, runtime_checkable

import torch
from torch import Tensor

from regard.decoding.protocol import Room
from regard.decoding.search import Search, advance, stops
from regard.kernels.gpu import HAS_TRITON
from regard.kernels.steps import Best
from regard.text.specials import END_ID

MOST_BEAMS = 16
"""So many the kernel can do."""


@runtime_checkable
class Tabled(Room, Protocol):
    """A room in which to reorder is to permute the rows of a table."""

    table: Tensor
    """(P, L) int32: in which row each position of a row's past lies."""


def go_on(search: Search, best: Best, room: Room, ended: Tensor, penalties: Tensor) -> None:
    """One token further, given the best continuations (B·K, n) of the rows in the room.

    The search and the room become those of the next step, and ``ended`` (B,) says who has ended;
    sentences that had before stay as they were. ``penalties``: see ``hypothesis``, by length.
    """
    if not _is_for_kernel(room, search.open.log_prob.shape[1]):
        _go_on(search, best, room, ended)
        return
    from regard.kernels.gpu import beam_search

    known = beam_search.Known(*search.tensors())
    beam_search.go_on(
        best.log_prob, best.ids, known, search.limits, penalties,
        ended, room.ids, room.places, room.table, end=END_ID,
    )  # fmt: skip


def runs_kernels(room: Room) -> bool:
    """Whether our kernels can be run where the room is."""
    return HAS_TRITON and room.ids.is_cuda


def _is_for_kernel(room: Room, n_beams: int) -> TypeGuard[Tabled]:
    """Whether the kernel can do it: beams are few, and a table is all that is reordered."""
    return runs_kernels(room) and n_beams <= MOST_BEAMS and isinstance(room, Tabled)


def _go_on(search: Search, best: Best, room: Room, ended: Tensor) -> None:
    """What the kernel owes."""
    later = advance(search, best)
    stopped = stops(later.search) | (ended != 0)
    for old, new in zip(search.tensors(), later.search.tensors(), strict=True):
        had_ended = (ended != 0).view(-1, *[1] * (old.dim() - 1))
        torch.where(had_ended, old, new, out=old)
    ended.copy_(stopped)
    room.reorder(later.parents)
    n_rows = later.parents.numel()
    room.ids[:n_rows] = search.last
    room.places[:n_rows].add_(1).clamp_(max=room.n_steps - 1)
