"""Recurrent encoder-decoders, without attention and with every attention of the lectures.

``plain`` (Sutskever et al. 2014; with a score, the CS224N decoder): an LSTM writes the target from
the encoder's last state; what it writes next is read off s_t, or off [a_t; s_t] with attention.
``luong`` (Luong et al. 2015): off an attentional state tanh(W_c [c; h]), fed into the next step.
``bahdanau`` (Bahdanau et al. 2015): s_{t-1} asks; the context goes into the GRU's every part, and
the output is deep.

Decoders run over any number of positions from any state, so that a step is a run over one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from regard.functional import masks
from regard.layers.context_gru import ContextGRU
from regard.layers.dropout import Dropout
from regard.layers.key_values import KeyValues
from regard.layers.memory_attention import MemoryAttention
from regard.layers.recurrence import Cell, CellState, Recurrence
from regard.layers.score import Beta
from regard.models.base import Output, SequenceConfig, SequenceModel
from regard.models.settings import NormaliserName, ScoreName, WindowName


class RecurrentConfig(SequenceConfig):
    """What makes one recurrent translator differ from another."""

    family: Literal["recurrent"] = "recurrent"
    decoder: Literal["plain", "luong", "bahdanau"] = "luong"
    cell: Cell = "lstm"
    d_model: int = Field(256, ge=1)
    n_layers: int = Field(1, ge=1)
    bidirectional: bool = False
    dropout: float = Field(0.0, ge=0.0, lt=1.0)
    score: ScoreName | None = None
    window: WindowName = "global"
    half_width: int = Field(10, ge=1)
    normaliser: NormaliserName = "softmax"
    beta: Beta = "fixed"
    input_feeding: bool = False
    reverse_source: bool = False

    @model_validator(mode="after")
    def _fits_together(self) -> RecurrentConfig:
        problems = []
        if self.decoder != "plain" and self.score is None:
            problems.append(f"decoder {self.decoder!r} attends: give a score")
        if self.decoder == "bahdanau" and (self.cell, self.n_layers) != ("gru", 1):
            problems.append("decoder 'bahdanau' is one GRU: cell must be gru, n_layers 1")
        if self.bidirectional and self.decoder != "bahdanau":
            problems.append(f"decoder {self.decoder!r} begins with the state of a one-way encoder")
        if self.bidirectional and self.score in ("dot", "scaled_dot", "content"):
            problems.append(
                f"score {self.score!r} needs states of one width, and those of a two-way encoder "
                "are twice as wide; 'general' and 'additive' take them"
            )
        if self.score is None and (self.window, self.normaliser) != ("global", "softmax"):
            problems.append("window and normaliser are of an attention, and there is none")
        if self.beta != "fixed" and self.score != "content":
            problems.append(f"beta sharpens the score 'content', not {self.score!r}")
        if self.input_feeding and self.decoder != "luong":
            problems.append(f"decoder {self.decoder!r} has no attentional state to feed back")
        if problems:
            raise ValueError("; ".join(problems))
        return self

    @property
    def d_memory(self) -> int:
        """Width of the encoder's states."""
        return self.d_model * (2 if self.bidirectional else 1)

    def attention(self) -> MemoryAttention | None:
        """An attention as these settings want it, or none."""
        if self.score is None:
            return None
        return MemoryAttention(
            self.d_model,
            self.d_memory,
            score=self.score,
            window=self.window,
            normaliser=self.normaliser,
            half_width=self.half_width,
            max_len=self.max_len,
            beta=self.beta,
        )


@dataclass(frozen=True, slots=True)
class Memory:
    """The encoder's states to look at, and the one to begin with."""

    keys_values: KeyValues | None
    mask: Tensor
    """(B, 1, 1, S)"""
    last: CellState

    def select(self, rows: Tensor) -> Memory:
        """Rows of the batch by index, in that order."""
        keys_values = None if self.keys_values is None else self.keys_values.select(rows)
        return Memory(keys_values, self.mask.index_select(0, rows), self.last.select(rows))


@dataclass(frozen=True, slots=True)
class State:
    """The decoder between two words."""

    cell: CellState
    fed: Tensor
    """(B, D): the last attentional state; zeros where none is fed back."""
    length: int = 0
    """Words read so far."""

    def select(self, rows: Tensor) -> State:
        """Rows of the batch by index, in that order."""
        return State(self.cell.select(rows), self.fed.index_select(0, rows), self.length)


class Encoder(nn.Module):
    """Source ids to states."""

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__()
        self.reverse_source = config.reverse_source
        self.tokens = nn.Embedding(config.n_source_vocab, config.d_model)
        self.dropout = Dropout(config.dropout)
        self.recurrence = Recurrence(
            config.cell,
            config.d_model,
            config.d_model,
            n_layers=config.n_layers,
            bidirectional=config.bidirectional,
            dropout=config.dropout,
        )

    def forward(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, CellState]:
        """ids (B, S), mask (B, S) -> states (B, S, d_memory) and the last one."""
        if self.reverse_source:
            ids = _reversed(ids, mask)
        states, last = self.recurrence(self.dropout(self.tokens(ids)), mask)
        # Reversed reading, but states stand where their words stand: attention sees no difference.
        return (_reversed(states, mask) if self.reverse_source else states), last


class LuongDecoder(nn.Module):
    """The decoders ``plain`` and ``luong``: attention comes after the recurrence."""

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__()
        d = config.d_model
        self.input_feeding = config.input_feeding
        self.tokens = nn.Embedding(config.n_target_vocab, d)
        self.dropout = Dropout(config.dropout)
        self.recurrence = Recurrence(
            config.cell,
            2 * d if config.input_feeding else d,
            d,
            n_layers=config.n_layers,
            dropout=config.dropout,
        )
        self.cross_attention = config.attention()
        self.join = (
            nn.Linear(d + config.d_memory, d, bias=False) if config.decoder == "luong" else None
        )
        attends_plainly = self.join is None and self.cross_attention is not None
        d_out = d + config.d_memory if attends_plainly else d
        self.to_logits = nn.Linear(d_out, config.n_target_vocab)

    def start(self, memory: Memory) -> State:
        """The encoder's last state."""
        return State(memory.last, torch.zeros_like(memory.last.h[:, 0]))

    def remember(self, states: Tensor) -> KeyValues | None:
        """The encoder's states (B, S, d_memory) as attention wants them."""
        return None if self.cross_attention is None else self.cross_attention.project(states)

    def forward(self, ids: Tensor, memory: Memory, state: State) -> tuple[Tensor, State]:
        """ids (B, T) after ``state`` -> what words are read off (B, T, D), and the new state."""
        words = self.dropout(self.tokens(ids))
        if self.input_feeding:
            out, state = self._feeding(words, memory, state)
        else:
            h, cell = self.recurrence(words, None, state.cell)
            out = self._joined(h, memory, state.length)
            state = State(cell, state.fed, state.length + ids.shape[1])
        return self.dropout(out), state

    def _feeding(self, words: Tensor, memory: Memory, state: State) -> tuple[Tensor, State]:
        """Each step reads what attention made of the one before: no two steps at once."""
        outputs = []
        for word in words.split(1, dim=1):  # (B, 1, D) each
            x = torch.cat((word, state.fed.unsqueeze(1)), dim=-1)
            h, cell = self.recurrence(x, None, state.cell)
            out = self._joined(h, memory, state.length)
            outputs.append(out)
            state = State(cell, out.squeeze(1), state.length + 1)
        return torch.cat(outputs, dim=1), state

    def _joined(self, h: Tensor, memory: Memory, first: int) -> Tensor:
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
        self.tokens = nn.Embedding(config.n_target_vocab, d)
        self.dropout = Dropout(config.dropout)
        self.begin = nn.Linear(d, d)
        attention = config.attention()
        assert attention is not None, "the configuration sees to it"
        self.cross_attention = attention
        self.cell = ContextGRU(d, d, config.d_memory)
        self.from_state = nn.Linear(d, 2 * d, bias=False)
        self.from_word = nn.Linear(d, 2 * d)
        self.from_context = nn.Linear(config.d_memory, 2 * d, bias=False)
        self.to_logits = nn.Linear(d, config.n_target_vocab)

    def start(self, memory: Memory) -> State:
        """s_0 = tanh(W h), where h is the last state of reading backwards: it saw word 1 last."""
        s = self.begin(memory.last.h[:, -1]).tanh()
        return State(CellState(s.unsqueeze(1), None), torch.zeros_like(s))

    def remember(self, states: Tensor) -> KeyValues:
        """The encoder's states (B, S, d_memory) as attention wants them.

        What a context gives to the GRU and to the output is linear in it, so both are computed
        from the states, once, and attention weighs the results (B, S, 5D).
        """
        values = torch.cat((self.cell.remember(states), self.from_context(states)), dim=-1)
        return self.cross_attention.project(states, values)

    def forward(self, ids: Tensor, memory: Memory, state: State) -> tuple[Tensor, State]:
        """ids (B, T) after ``state`` -> what words are read off (B, T, D), and the new state."""
        assert memory.keys_values is not None, "the configuration sees to it"
        words = self.dropout(self.tokens(ids))
        s, states, shown = state.cell.h[:, 0], [], []
        for t, read in enumerate(self.cell.read(words).unbind(dim=1)):
            context = self.cross_attention.look(
                s.unsqueeze(1), memory.keys_values, mask=memory.mask, first=state.length + t
            ).squeeze(1)
            remembered, output = context.split((read.shape[-1], 2 * s.shape[-1]), dim=-1)
            states.append(s)
            shown.append(output)
            s = self.cell(read, remembered, s)
        out = self._deep(torch.stack(states, 1), words, torch.stack(shown, 1))
        cell = CellState(s.unsqueeze(1), None)
        return out, State(cell, state.fed, state.length + ids.shape[1])

    def _deep(self, before: Tensor, words: Tensor, shown: Tensor) -> Tensor:
        """Maxout over pairs of U_o s_{t-1} + V_o y_{t-1} + C_o c_t."""
        pairs = self.from_state(before) + self.from_word(words) + shown
        return self.dropout(pairs.unflatten(-1, (-1, 2)).amax(dim=-1))


class RecurrentTranslator(SequenceModel):
    """Speaks the protocol of ``regard.decoding``: forward, encode, start, step."""

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__()
        self.config: RecurrentConfig = config
        self.encoder = Encoder(config)
        self.decoder: LuongDecoder | BahdanauDecoder = (
            BahdanauDecoder(config) if config.decoder == "bahdanau" else LuongDecoder(config)
        )

    def states(self, source: Tensor, target: Tensor) -> Tensor:
        """As ``SequenceModel.states``."""
        memory = self.encode(source)
        states, _ = self.decoder(target, memory, self.start(memory))
        return states

    def output(self) -> Output:
        """As ``SequenceModel.output``."""
        return Output(self.decoder.to_logits.weight, self.decoder.to_logits.bias)

    def encode(self, source: Tensor) -> Memory:
        """Source ids (B, S) -> what the decoder will look at and begin with."""
        mask = masks.padding(source, pad=self.config.pad_id)
        states, last = self.encoder(source, mask[:, 0, 0])
        return Memory(self.decoder.remember(states), mask, last)

    def start(self, memory: Memory) -> State:
        """The state before the first word."""
        return self.decoder.start(memory)

    def step(self, ids: Tensor, memory: Memory, state: State) -> tuple[Tensor, State]:
        """Last ids (B,) -> logits (B, V) of the next, and the state that knows them."""
        states, state = self.decoder(ids.unsqueeze(1), memory, state)
        return self.logits(states.squeeze(1)), state


def _reversed(x: Tensor, mask: Tensor) -> Tensor:
    """(B, S) or (B, S, D): each row's real positions turned round, its padding left at the end."""
    at = torch.arange(mask.shape[1], device=x.device)
    turned = mask.sum(dim=1, keepdim=True) - 1 - at  # (B, S)
    index = torch.where(mask, turned, at)
    if x.dim() == 3:
        return x.gather(1, index.unsqueeze(2).expand_as(x))
    return x.gather(1, index)
