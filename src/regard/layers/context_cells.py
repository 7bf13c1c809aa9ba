"""Cells of decoders that read a context besides a word: what a step has found in the source."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from typing_extensions import override

from regard.kernels.attending_recurrence import SourceAttention, attending_gru, attending_lstm
from regard.kernels.recurrence import StateWeights
from regard.layers.recurrence import CELLS, CellState, one_layer, open_forget_gates


class RecordedSteps(NamedTuple):
    """What kernels made of all steps at once."""

    states: Tensor
    """(B, T, D)"""
    contexts: Tensor
    """(B, T, Dv)"""
    last: CellState
    """One layer."""


class ContextCell(nn.Module):
    """One step of a decoder that reads a word y and a context c, which enters all its parts.

    What depends on the words alone is computed for all of them at once: ``words`` (B, T, d_word) ->
    (B, T, n_parts · D). So is what depends on the memory alone, ``context`` (B, S, d_context) ->
    (B, S, n_parts · D): since c = Σ α_j h_j, C c = Σ α_j C h_j, and attention may weigh the C h_j.
    This one is a plain cell, tanh(W y + U s + C c).
    """

    cell = CELLS["tanh"]
    n_parts = 1
    """Vectors of width D that words and contexts are projected to."""

    def __init__(self, d_word: int, d_hidden: int, d_context: int) -> None:
        super().__init__()
        self.words = nn.Linear(d_word, self.n_parts * d_hidden)
        self.context = nn.Linear(d_context, self.n_parts * d_hidden, bias=False)
        self._make(d_hidden)

    def _make(self, d_hidden: int) -> None:
        self.state = nn.Linear(d_hidden, self.n_parts * d_hidden, bias=False)

    def start(self, s: Tensor) -> Tensor | None:
        """The c (B, D) that stands beside a first s (B, D), empty; only an LSTM has one."""
        return torch.zeros_like(s) if self.cell.has_c else None

    def forward(
        self, read: Tensor, remembered: Tensor, s: Tensor, c: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """A word's part and its context's, (B, n_parts · D) each, s and c (B, D) -> new s and c."""
        step = self.cell.stepping(read.device)
        s, new = step(read + remembered, self.state(s), s, s if c is None else c)
        return s, new if self.cell.has_c else None

    def recorded(
        self, read: Tensor, source: SourceAttention, s: Tensor, c: Tensor | None
    ) -> RecordedSteps | None:
        """All steps, each of which looks at the source first, where a kernel takes them."""
        return None


class ContextGRU(ContextCell):
    """The GRU of Bahdanau et al. 2015.

    z = σ(W_z y + U_z s + C_z c)
    r = σ(W_r y + U_r s + C_r c)
    s̃ = tanh(W y + U (r ∘ s) + C c)
    s' = (1 - z) ∘ s + z ∘ s̃
    """

    n_parts = 3

    def _make(self, d_hidden: int) -> None:
        self.gates = nn.Linear(d_hidden, 2 * d_hidden, bias=False)
        self.candidate = nn.Linear(d_hidden, d_hidden, bias=False)

    @override
    def forward(
        self, read: Tensor, remembered: Tensor, s: Tensor, c: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        for_z, for_r, for_new = (read + remembered).chunk(3, dim=-1)
        of_z, of_r = self.gates(s).chunk(2, dim=-1)
        z, r = (for_z + of_z).sigmoid(), (for_r + of_r).sigmoid()
        new = torch.tanh(for_new + self.candidate(r * s))
        return (1 - z) * s + z * new, None

    @override
    def recorded(
        self, read: Tensor, source: SourceAttention, s: Tensor, c: Tensor | None
    ) -> RecordedSteps:
        weights = (self.gates.weight, self.candidate.weight)
        states, contexts, last = attending_gru(read, source, *weights, s)
        return RecordedSteps(states, contexts, one_layer(last, None))


class ContextLSTM(ContextCell):
    """An LSTM whose four parts read word, state and context.

    With ``d_out`` its memory is wider than what it tells: s = W (o ∘ tanh(c)) is so wide.
    """

    cell = CELLS["lstm"]
    n_parts = 4

    def __init__(
        self, d_word: int, d_hidden: int, d_context: int, *, d_out: int | None = None
    ) -> None:
        super().__init__(d_word, d_hidden, d_context)
        open_forget_gates(self.words.bias)
        self.to_out: nn.Linear | None = None
        if d_out is not None:
            self.state = nn.Linear(d_out, 4 * d_hidden, bias=False)
            self.to_out = nn.Linear(d_hidden, d_out, bias=False)

    @override
    def forward(
        self, read: Tensor, remembered: Tensor, s: Tensor, c: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        s, c = super().forward(read, remembered, s, c)
        return s if self.to_out is None else self.to_out(s), c

    @override
    def recorded(
        self, read: Tensor, source: SourceAttention, s: Tensor, c: Tensor | None
    ) -> RecordedSteps:
        assert c is not None, "an LSTM has one"
        out = None if self.to_out is None else self.to_out.weight
        weights = StateWeights(self.state.weight, None, out)
        states, contexts, last = attending_lstm(read, source, weights, (s, c))
        return RecordedSteps(states, contexts, one_layer(*last))


CONTEXT_CELLS = {"tanh": ContextCell, "gru": ContextGRU, "lstm": ContextLSTM}
