"""Recurrent encoder-decoders, without attention and with every attention of the lectures.

``plain`` (Sutskever et al. 2014; with a score, the CS224N decoder): an LSTM writes the target from
the encoder's last state; what it writes next is read off s_t, or off [a_t; s_t] with attention.
``luong`` (Luong et al. 2015): off an attentional state tanh(W_c [c; h]), fed into the next step.
``bahdanau`` (Bahdanau et al. 2015): s_{t-1} asks; the context goes into every part of the cell,
and the output is deep.

Cells are LSTMs, GRUs or plain ones, and any encoder may read both ways: then a projection of its
two last states is what the decoder begins with.

Decoders run over any number of positions from any state, so that a step is a run over one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from typing_extensions import override

from regard.functional import masks
from regard.layers.attention import MemoryAttention
from regard.layers.attentive_cell import unroll_attending
from regard.layers.context_cells import CONTEXT_CELLS
from regard.layers.dropout import Dropout
from regard.layers.embeddings import readout, word_table
from regard.layers.input_feeding import recorded_feeding
from regard.layers.key_values import KeyValues
from regard.layers.recurrence import (
    BothWays,
    CellState,
    Recurrence,
    begin_orthogonal,
    one_layer,
    turned_round,
)
from regard.layers.settings import Count
from regard.models.base import SequenceModel
from regard.models.settings import Cell, RecurrentWordsConfig


class RecurrentConfig(RecurrentWordsConfig):
    """A recurrent encoder-decoder, with or without attention."""

    family: Literal["recurrent"] = "recurrent"
    decoder: Literal["plain", "luong", "bahdanau"] = Field(
        "luong", description="Where attention stands: nowhere, behind the cell, or inside."
    )
    cell: Cell = Field("lstm", description="What a step of the recurrence is.")
    n_layers: Count = Field(1, description="Layers of encoder and of decoder.")
    bidirectional: bool = Field(False, description="Whether the encoder reads both ways.")
    window: str = Field("global", description="Which keys a query may see.")
    half_width: Count = Field(10, description="D of the local windows.")
    input_feeding: bool = Field(False, description="Whether the last attentional state is read.")
    reverse_source: bool = Field(False, description="Whether the source is read from its end.")

    def problems(self) -> Iterator[str]:
        """What the three decoders cannot be told."""
        if self.decoder != "plain" and self.score is None:
            yield f"decoder {self.decoder!r} attends: give a score"
        if self.decoder == "bahdanau" and self.n_layers != 1:
            yield "decoder 'bahdanau' is one cell: n_layers must be 1"
        if self.score is None and (self.window, self.normaliser) != ("global", "softmax"):
            yield "window and normaliser are of an attention, and there is none"
        if self.window == "causal":
            yield "window 'causal': a target has no future in its source"
        if self.window == "compressed":
            yield (
                "window 'compressed' is for keys of several heads, and a recurrent decoder looks "
                "with one; choose another"
            )
        if self.input_feeding and self.decoder != "luong":
            yield f"decoder {self.decoder!r} has no attentional state to feed back"
        yield from super().problems()

    @property
    def d_memory(self) -> int:
        """Width of the encoder's states."""
        return self.d_model * (2 if self.bidirectional else 1)

    @property
    def compares_states(self) -> bool:
        """Whether attention compares the decoder's states with the encoder's as they are."""
        return self.decoder == "plain" and self.score is not None


@dataclass(frozen=True, slots=True)
class RecurrentMemory:
    """The encoder's states to look at, and the one to begin with."""

    keys_values: KeyValues | None
    mask: Tensor
    """(B, 1, 1, S)"""
    last: CellState

    def select(self, rows: Tensor) -> RecurrentMemory:
        """Rows of the batch by index, in that order."""
        keys_values = None if self.keys_values is None else self.keys_values.select(rows)
        return RecurrentMemory(keys_values, self.mask.index_select(0, rows), self.last.select(rows))


@dataclass(frozen=True, slots=True)
class RecurrentState:
    """The decoder between two words."""

    cell: CellState
    fed: Tensor
    """(B, D): the last attentional state; zeros where none is fed back."""
    length: int = 0
    """Words read so far."""

    def select(self, rows: Tensor) -> RecurrentState:
        """Rows of the batch by index, in that order."""
        return RecurrentState(self.cell.select(rows), self.fed.index_select(0, rows), self.length)


def _recurrence(config: RecurrentConfig, d_in: int, *, bidirectional: bool = False) -> Recurrence:
    """The stack of cells of an encoder or a decoder, with fresh weights that carry the source.

    Where states are compared as they are, they must tell places apart: with open forget gates and
    large inputs neighbours are alike, the last state carries all that is needed, and attention is
    never learned. These begin as torch has them.
    """
    layers = Recurrence(
        config.cell,
        d_in,
        config.d_model,
        n_layers=config.n_layers,
        bidirectional=bidirectional,
        dropout=config.dropout,
        remembers=not config.compares_states,
    )
    if not config.compares_states:
        begin_orthogonal(layers)
    return layers


class RecurrentEncoder(nn.Module):
    """Source ids to states."""

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__()
        self.reverse_source = config.reverse_source
        self.tokens = nn.Embedding(config.n_source_vocab, config.d_model)
        self.dropout = Dropout(config.dropout)
        self.recurrence = _recurrence(config, config.d_model, bidirectional=config.bidirectional)

    def forward(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, CellState]:
        """ids (B, S), mask (B, S) -> states (B, S, d_memory) and the last one."""
        if self.reverse_source:
            ids = turned_round(ids, mask)
        states, last = self.recurrence(self.dropout(self.tokens(ids)), mask)
        # Reversed reading, but states stand where their words stand: attention sees no difference.
        return (turned_round(states, mask) if self.reverse_source else states), last


class LuongDecoder(nn.Module):
    """The decoders ``plain`` and ``luong``: attention comes after the recurrence."""

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__()
        d = config.d_model
        self.input_feeding = config.input_feeding
        self.tokens = word_table(config.n_target_vocab, d, tied=config.tied_output)
        self.dropout = Dropout(config.dropout)
        self.recurrence = _recurrence(config, 2 * d if config.input_feeding else d)
        attends = config.score is not None
        attention = MemoryAttention(d, config.d_memory, **config.attention) if attends else None
        self.cross_attention = attention
        d_both, is_luong = d + config.d_memory, config.decoder == "luong"
        self.join = nn.Linear(d_both, d, bias=False) if is_luong else None
        if self.join is not None:
            nn.init.xavier_uniform_(self.join.weight, nn.init.calculate_gain("tanh"))
        d_out = d if is_luong or self.cross_attention is None else d_both
        self.to_words, self.to_logits = readout(d_out, self.tokens, tied=config.tied_output)
        self.begin = (
            BothWays(d, d if config.cell == "lstm" else None) if config.bidirectional else None
        )

    def start(self, memory: RecurrentMemory) -> RecurrentState:
        """The encoder's last state; of one that read both ways, what is made of its two."""
        last = memory.last if self.begin is None else self.begin(memory.last)
        return RecurrentState(last, torch.zeros_like(last.h[:, 0]))

    def remember(self, states: Tensor) -> KeyValues | None:
        """The encoder's states (B, S, d_memory) as attention wants them."""
        return None if self.cross_attention is None else self.cross_attention.project(states)

    def forward(
        self, ids: Tensor, memory: RecurrentMemory, state: RecurrentState
    ) -> tuple[Tensor, RecurrentState]:
        """ids (B, T) after ``state`` -> what words are read off (B, T, D), and the new state."""
        words = self.dropout(self.tokens(ids))
        if not self.input_feeding:
            h, cell = self.recurrence(words, None, state.cell)
            out = self._joined(h, memory, state.length)
            return self._told(out), RecurrentState(cell, state.fed, state.length + ids.shape[1])
        if (recorded := self._recorded(words, memory, state)) is not None:
            out, cell = recorded
            after = RecurrentState(cell, out[:, -1], state.length + ids.shape[1])
            return self._told(out), after
        outputs = []  # each step reads what attention made of the one before: no two at once
        for word in words.split(1, dim=1):  # (B, 1, D) each
            x = torch.cat((word, state.fed.unsqueeze(1)), dim=-1)
            h, cell = self.recurrence(x, None, state.cell)
            out = self._joined(h, memory, state.length)
            outputs.append(out)
            state = RecurrentState(cell, out.squeeze(1), state.length + 1)
        return self._told(torch.cat(outputs, dim=1)), state

    def _recorded(
        self, words: Tensor, memory: RecurrentMemory, state: RecurrentState
    ) -> tuple[Tensor, CellState] | None:
        """All steps by one function, where a kernel knows them."""
        if self.cross_attention is None or self.join is None or memory.keys_values is None:
            return None
        about = (self.cross_attention, self.join, words, memory.keys_values, memory.mask)
        return recorded_feeding(self.recurrence, *about, state.cell, state.fed)

    def _told(self, out: Tensor) -> Tensor:
        return self.dropout(self.to_words(out))

    def _joined(self, h: Tensor, memory: RecurrentMemory, first: int) -> Tensor:
        """States (B, T, D) -> what the words are read off: h, [a; h] or tanh(W_c [c; h])."""
        if self.cross_attention is None or memory.keys_values is None:
            return h
        context = self.cross_attention.look(h, memory.keys_values, mask=memory.mask, first=first)
        both = torch.cat((context, h), dim=-1)
        return both if self.join is None else self.join(both).tanh()


class BahdanauDecoder(nn.Module):
    """The decoder ``bahdanau``: attention comes before the recurrence, and into it."""

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__()
        d = config.d_model
        self.tokens = word_table(config.n_target_vocab, d, tied=config.tied_output)
        self.dropout = Dropout(config.dropout)
        self.begin = nn.Linear(d, d)
        self.cross_attention = MemoryAttention(d, config.d_memory, **config.attention)
        self.cell = CONTEXT_CELLS[config.cell](d, d, config.d_memory)
        self.from_state = nn.Linear(d, 2 * d, bias=False)
        self.from_word = nn.Linear(d, 2 * d)
        self.from_context = nn.Linear(config.d_memory, 2 * d, bias=False)
        _, self.to_logits = readout(d, self.tokens, tied=config.tied_output)

    def start(self, memory: RecurrentMemory) -> RecurrentState:
        """s_0 = tanh(W h), where h is the last state of reading backwards: it saw word 1 last."""
        s = self.begin(memory.last.h[:, -1]).tanh()
        return RecurrentState(one_layer(s, self.cell.start(s)), torch.zeros_like(s))

    def remember(self, states: Tensor) -> KeyValues:
        """The encoder's states (B, S, d_memory) as attention wants them.

        What a context gives to the cell and to the output is linear in it, so both are computed
        from the states, once, and attention weighs the results; of a GRU (B, S, 5D).
        """
        values = torch.cat((self.cell.context(states), self.from_context(states)), dim=-1)
        return self.cross_attention.project(states, values)

    def forward(
        self, ids: Tensor, memory: RecurrentMemory, state: RecurrentState
    ) -> tuple[Tensor, RecurrentState]:
        """ids (B, T) after ``state`` -> what words are read off (B, T, D), and the new state."""
        assert memory.keys_values is not None, "the configuration sees to it"
        words = self.dropout(self.tokens(ids))
        read = self.cell.words(words)
        steps = unroll_attending(
            self.cross_attention,
            self.cell,
            read,
            memory.keys_values,
            memory.mask,
            state.cell,
            first=state.length,
        )
        # Maxout over pairs of U_o s_{t-1} + V_o y_{t-1} + C_o c_t.
        shown = steps.contexts[..., read.shape[-1] :]
        pairs = self.from_state(steps.before) + self.from_word(words) + shown
        out = self.dropout(pairs.unflatten(-1, (-1, 2)).amax(dim=-1))
        return out, RecurrentState(steps.last, state.fed, state.length + ids.shape[1])


class RecurrentTranslator(SequenceModel):
    """Speaks the protocol of ``regard.decoding``: forward, encode, start, step."""

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__()
        self.config: RecurrentConfig = config
        self.encoder = RecurrentEncoder(config)
        self.decoder: LuongDecoder | BahdanauDecoder = (
            BahdanauDecoder(config) if config.decoder == "bahdanau" else LuongDecoder(config)
        )

    @override
    def encode(self, source: Tensor) -> RecurrentMemory:
        mask = masks.padding(source, pad=self.config.pad_id)
        states, last = self.encoder(source, mask[:, 0, 0])
        return RecurrentMemory(self.decoder.remember(states), mask, last)

    @override
    def start(self, memory: RecurrentMemory) -> RecurrentState:
        return self.decoder.start(memory)
