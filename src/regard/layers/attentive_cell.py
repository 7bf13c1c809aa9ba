"""A decoder's cell that looks at the source before every step, and reads what it found.

The state before a step asks, s_{t-1}; the context enters the cell of that very step. No two steps
can be taken at once, so all that does not wait for a state is computed outside of the loop: what
words give to the cell, and what the cell makes of the memory.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.functional.masks import Mask
from regard.layers.attention import MemoryAttention
from regard.layers.key_values import KeyValues
from regard.layers.recurrence import CellState, ContextCell, one_layer


@dataclass(frozen=True, slots=True)
class AttendingSteps:
    """What came of T steps."""

    before: Tensor
    """(B, T, D): the states that asked."""
    after: Tensor
    """(B, T, D): the states that they became."""
    contexts: Tensor
    """(B, T, Dv): what was found, the cell's part first."""
    last: CellState
    """One layer."""


def unroll_attending(
    attention: MemoryAttention,
    cell: ContextCell,
    read: Tensor,
    memory: KeyValues,
    mask: Mask,
    state: CellState,
    *,
    first: int,
) -> AttendingSteps:
    """Words' parts ``cell.words(y)`` (B, T, n_parts · D), the first at position ``first``.

    The memory's values are what ``cell.context`` made of it, (B, 1, S, n_parts · D), and beside
    them whatever else of it is wanted of each step.
    """
    s, c = state.h[:, 0], None if state.c is None else state.c[:, 0]
    states, contexts = [s], []
    for t, word in enumerate(read.unbind(dim=1), first):
        context = attention.look(s.unsqueeze(1), memory, mask=mask, first=t).squeeze(1)
        s, c = cell(word, context[:, : word.shape[-1]], s, c)
        states.append(s)
        contexts.append(context)
    every = torch.stack(states, dim=1)
    return AttendingSteps(
        every[:, :-1], every[:, 1:], torch.stack(contexts, dim=1), one_layer(s, c)
    )
