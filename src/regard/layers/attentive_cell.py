"""A decoder's cell that looks at the source before every step, and reads what it found.

The state before a step asks, s_{t-1}; the context enters the cell of that very step. No two steps
can be taken at once, so all that does not wait for a state is computed outside of the loop: what
words give to the cell, and what the cell makes of the memory.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.functional.attend import softmax
from regard.functional.masks import Mask
from regard.kernels import call
from regard.kernels.attending_recurrence import MOST_KEYS, SourceAttention
from regard.layers.attention import MemoryAttention
from regard.layers.context_cells import ContextCell
from regard.layers.key_values import KeyValues
from regard.layers.recurrence import CellState, one_layer
from regard.layers.window import Window


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
    asks = "w_query" in attention.score.learned  # through a matrix, as kernels have it
    recorded = call.is_recorded(read) and asks
    source = source_attention(attention, memory, mask) if recorded else None
    steps = None if source is None else cell.recorded(read, source, s, c)
    if steps is not None:
        before = torch.cat((s.unsqueeze(1).to(steps.states.dtype), steps.states[:, :-1]), dim=1)
        return AttendingSteps(before, *steps)
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


def source_attention(
    attention: MemoryAttention, memory: KeyValues, mask: Mask
) -> SourceAttention | None:
    """What kernels for recorded steps take, where they know the attention."""
    kind, learned = attention.score.name, attention.score.learned
    plain = type(attention.window) is Window and attention.normaliser is softmax
    if not plain or attention.view.watched or memory.length > MOST_KEYS:
        return None
    if not isinstance(mask, Tensor) or mask.shape[1:3] != (1, 1):
        return None
    keys, values = memory.k[:, 0], memory.v[:, 0]
    seen = mask[:, 0, 0].expand(keys.shape[:2]).contiguous()
    if kind in ("additive", "tanh_product"):
        return SourceAttention(keys, values, seen, kind, learned["w_query"], learned["v"])
    if kind == "general":  # qᵀ(W k) for all keys at once
        keys = keys @ learned["weight"].to(keys.dtype).t()
    elif kind == "scaled_dot":
        keys = keys / math.sqrt(keys.shape[-1])
    elif kind == "content":
        if "to_beta" in learned:
            return SourceAttention(keys, values, seen, "sharp_cosine", None, learned["to_beta"])
        keys = keys * learned["log_beta"].exp().to(keys.dtype) if learned else keys
        return SourceAttention(keys, values, seen, "cosine")
    elif kind != "dot":
        return None
    return SourceAttention(keys, values, seen, "product")
