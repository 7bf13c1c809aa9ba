"""Encoder and decoder as Long Short-Term Memory-Networks (Cheng et al. 2016).

Both read their words onto a tape and attend to what they wrote there before. The decoder also
attends to the encoder's tape, and what it finds is fused with what it has in one of two ways:
``shallow``, outside the recurrence, where words are read off [context; h]; or ``deep``, inside,
where a gate brings the encoder's memory into the decoder's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from regard.functional import masks
from regard.layers.dropout import Dropout
from regard.layers.key_values import KeyValues
from regard.layers.memory_attention import MemoryAttention
from regard.layers.score import Beta
from regard.layers.tape import Tape, TapeAttention, TapeCell, empty_tape, unroll
from regard.models.base import Output, SequenceConfig, SequenceModel
from regard.models.settings import FusionName, NormaliserName, ScoreName


class MemoryNetworkConfig(SequenceConfig):
    """What makes one memory-network differ from another."""

    family: Literal["memory_network"] = "memory_network"
    d_model: int = Field(256, ge=1)
    dropout: float = Field(0.0, ge=0.0, lt=1.0)
    fusion: FusionName = "deep"
    score: ScoreName = "additive"
    normaliser: NormaliserName = "softmax"
    beta: Beta = "fixed"

    @model_validator(mode="after")
    def _fits_together(self) -> MemoryNetworkConfig:
        if self.beta != "fixed" and self.score != "content":
            raise ValueError(f"beta sharpens the score 'content', not {self.score!r}")
        return self

    def self_attention(self) -> TapeAttention:
        """Attention to one's own tape, as these settings want it; it is never hard."""
        d = self.d_model
        return TapeAttention(d, d, score=self.score, max_len=self.max_len, beta=self.beta)

    def cross_attention(self) -> MemoryAttention:
        """Attention to the encoder's tape, as these settings want it."""
        d = self.d_model
        return MemoryAttention(
            d,
            d,
            score=self.score,
            normaliser=self.normaliser,
            max_len=self.max_len,
            beta=self.beta,
        )


@dataclass(frozen=True, slots=True)
class Memory:
    """The encoder's tape to look at."""

    steps: KeyValues
    """k (B, 1, S, D); v (B, 1, S, D) its hidden states, with deep fusion (B, 1, S, 2D) both."""
    mask: Tensor
    """(B, 1, 1, S)"""

    def select(self, rows: Tensor) -> Memory:
        """Rows of the batch by index, in that order."""
        return Memory(self.steps.select(rows), self.mask.index_select(0, rows))


@dataclass(frozen=True, slots=True)
class State:
    """The decoder between two words."""

    tape: Tape
    found: Tensor
    """(B, D): γ̃, what deep fusion found last in the encoder's hidden tape; zeros otherwise."""

    def select(self, rows: Tensor) -> State:
        """Rows of the batch by index, in that order."""
        return State(self.tape.select(rows), self.found.index_select(0, rows))


class Encoder(nn.Module):
    """Source ids to a tape."""

    def __init__(self, config: MemoryNetworkConfig) -> None:
        super().__init__()
        self.tokens = nn.Embedding(config.n_source_vocab, config.d_model)
        self.dropout = Dropout(config.dropout)
        self.self_attention = config.self_attention()
        self.cell = TapeCell(config.d_model, config.d_model)

    def forward(self, ids: Tensor, mask: Tensor) -> Tape:
        """ids (B, S), mask (B, 1, 1, S) -> the tape of all S steps."""
        words = self.dropout(self.tokens(ids))
        tape = empty_tape(words.new_zeros(words.shape[0], words.shape[2]))
        return unroll(self.cell, self.self_attention, words, tape, mask=mask)


class Decoder(nn.Module):
    """What both fusions share: words, a tape of one's own, attention to the encoder's."""

    def __init__(self, config: MemoryNetworkConfig, d_out: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(config.n_target_vocab, config.d_model)
        self.dropout = Dropout(config.dropout)
        self.self_attention = config.self_attention()
        self.cell = TapeCell(config.d_model, config.d_model)
        self.cross_attention = config.cross_attention()
        self.to_logits = nn.Linear(d_out, config.n_target_vocab)

    def project(self, encoded: Tape) -> KeyValues:
        """The encoder's tape -> what to look at, once for all steps."""
        raise NotImplementedError

    def forward(self, ids: Tensor, memory: Memory, state: State) -> tuple[Tensor, State]:
        """ids (B, T) after ``state`` -> what words are read off (B, T, D), and the new state."""
        raise NotImplementedError

    def _unrolled(self, words: Tensor, tape: Tape, brought: Tensor | None) -> tuple[Tensor, Tape]:
        """Words (B, T, D) after the ``tape`` -> their h (B, T, D), and the tape with them on it."""
        after = unroll(self.cell, self.self_attention, words, tape, brought=brought)
        return after.hidden[:, tape.length :], after


class ShallowDecoder(Decoder):
    """Attention to the encoder comes after the recurrence, so that all steps look at once."""

    def __init__(self, config: MemoryNetworkConfig) -> None:
        super().__init__(config, d_out=2 * config.d_model)

    def project(self, encoded: Tape) -> KeyValues:
        """As ``Decoder.project``: the hidden tape alone."""
        return self.cross_attention.project(encoded.hidden)

    def forward(self, ids: Tensor, memory: Memory, state: State) -> tuple[Tensor, State]:
        """As ``Decoder.forward``."""
        words = self.dropout(self.tokens(ids))
        h, tape = self._unrolled(words, state.tape, None)
        context = self.cross_attention.look(
            h, memory.steps, mask=memory.mask, first=state.tape.length
        )
        out = torch.cat((context, h), dim=-1)
        return self.dropout(out), State(tape, state.found)


class DeepDecoder(Decoder):
    """What is found in the encoder's tapes, γ̃ and α̃, goes into the recurrence.

        r = σ(W_r [γ̃; x])
        c = r ∘ α̃ + f ∘ c̃ + i ∘ ĉ

    Who asks the encoder is the word and the last γ̃, as on a tape of one's own.
    """

    def __init__(self, config: MemoryNetworkConfig) -> None:
        super().__init__(config, d_out=config.d_model)
        self.asks = nn.Linear(config.d_model, config.d_model, bias=False)
        self.gate = nn.Linear(2 * config.d_model, config.d_model)

    def project(self, encoded: Tape) -> KeyValues:
        """As ``Decoder.project``: both tapes side by side."""
        return self.cross_attention.project(encoded.hidden, encoded.steps.v[:, 0])

    def forward(self, ids: Tensor, memory: Memory, state: State) -> tuple[Tensor, State]:
        """As ``Decoder.forward``."""
        words = self.dropout(self.tokens(ids))
        found, contents = self._found(words, memory, state)
        r = self.gate(torch.cat((found, words), dim=-1)).sigmoid()
        h, tape = self._unrolled(words, state.tape, r * contents)
        return self.dropout(h), State(tape, found[:, -1])

    def _found(self, words: Tensor, memory: Memory, state: State) -> tuple[Tensor, Tensor]:
        """γ̃ and α̃ (B, T, D) of every word: they wait for each other, but not for the tape."""
        found, both = state.found.unsqueeze(1), []
        for t, ask in enumerate(self.asks(words).split(1, dim=1)):  # (B, 1, D) each
            both.append(
                self.cross_attention.look(
                    ask + found, memory.steps, mask=memory.mask, first=state.tape.length + t
                )
            )
            found = both[-1].chunk(2, dim=-1)[0]
        hidden, contents = torch.cat(both, dim=1).chunk(2, dim=-1)
        return hidden, contents


class MemoryNetwork(SequenceModel):
    """Speaks the protocol of ``regard.decoding``: forward, encode, start, step."""

    def __init__(self, config: MemoryNetworkConfig) -> None:
        super().__init__()
        self.config: MemoryNetworkConfig = config
        self.encoder = Encoder(config)
        self.decoder: Decoder = (
            DeepDecoder(config) if config.fusion == "deep" else ShallowDecoder(config)
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
        """Source ids (B, S) -> what the decoder will look at."""
        mask = masks.padding(source, pad=self.config.pad_id)
        return Memory(self.decoder.project(self.encoder(source, mask)), mask)

    def start(self, memory: Memory) -> State:
        """Nothing is written, and nothing found yet."""
        nothing = torch.zeros_like(memory.steps.k[:, 0, 0])
        return State(empty_tape(nothing), nothing)

    def step(self, ids: Tensor, memory: Memory, state: State) -> tuple[Tensor, State]:
        """Last ids (B,) -> logits (B, V) of the next, and the state that knows them."""
        states, state = self.decoder(ids.unsqueeze(1), memory, state)
        return self.logits(states.squeeze(1)), state
