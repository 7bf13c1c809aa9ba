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
    if not call.is_recorded(words) or state.c is None:  # an LSTM has one
        return None
    source = source_attention(attention, memory, mask)
    if source is None:
        return None
    inner, d = recurrence.inner, words.shape[-1]
    (lowest, bias, first), *above = (recurrence.weights(f"_l{n}") for n in range(inner.num_layers))
    matrices = [torch.cat((lowest[:, d:], first.matrix), dim=1)]  # of f and of h
    matrices += [torch.cat((w, of_state.matrix), dim=1) for w, _, of_state in above]
    read = F.linear(words, lowest[:, :d], bias)
    kept = None
    if recurrence.training and inner.dropout and len(matrices) > 1:
        shape = (len(matrices) - 1, words.shape[1], len(words), inner.hidden_size)
        kept = F.dropout(words.new_ones(shape), inner.dropout)
    before = FedState(fed, state.h, state.c)
    biases = [one for _, one, _ in above]
    out, after = fed_lstm(read, source, matrices, biases, join.weight, before, kept)
    return out, CellState(after.h, after.c)
