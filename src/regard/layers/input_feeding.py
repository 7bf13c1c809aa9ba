"""Input feeding, where updates are recorded: all steps of a decoder that reads what it made last.

``regard.models.recurrent`` has the loop that can be read; they are tested to agree.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.functional.masks import Mask
from regard.kernels import call
from regard.kernels.input_feeding import FedState, fed_lstm
from regard.layers.attention import MemoryAttention
from regard.layers.attentive_cell import source_attention
from regard.layers.key_values import KeyValues
from regard.layers.recurrence import CellState, Recurrence


def recorded_feeding(
    recurrence: Recurrence,
    attention: MemoryAttention,
    join: nn.Linear,
    words: Tensor,
    memory: KeyValues,
    mask: Mask,
    state: CellState,
    fed: Tensor,
) -> tuple[Tensor, CellState] | None:
    """Words (B, T, D) after ``state`` and the last attentional state ``fed`` (B, D) -> attentional
    states (B, T, D) and the new state; None where the steps must be taken one by one.
    """
    if not call.is_recorded(words) or state.c is None:
        return None
    known = source_attention(attention, memory, mask)
    if known is None:
        return None
    inner, d = recurrence.inner, words.shape[-1]
    weights = [[getattr(inner, f"{name}_l{n}") for name in _NAMES] for n in range(inner.num_layers)]
    biases = [of_x + of_h for _, _, of_x, of_h in weights]
    lowest = weights[0][0]
    matrices = [torch.cat((lowest[:, d:], weights[0][1]), dim=1)]
    matrices += [torch.cat((of_x, of_h), dim=1) for of_x, of_h, _, _ in weights[1:]]
    read = F.linear(words, lowest[:, :d], biases[0])
    kept = None
    if recurrence.training and inner.dropout and len(matrices) > 1:
        shape = (len(matrices) - 1, words.shape[1], len(words), inner.hidden_size)
        kept = F.dropout(words.new_ones(shape), inner.dropout)
    before = FedState(fed, state.h, state.c)
    out, after = fed_lstm(read, known, matrices, biases[1:], join.weight, before, kept)
    return out, CellState(after.h, after.c)


_NAMES = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
