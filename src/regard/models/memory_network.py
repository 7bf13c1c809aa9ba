"""Encoder and decoder as Long Short-Term Memory-Networks (Cheng et al. 2016).

Both read their words onto a tape and attend to what they wrote there before. The decoder also
attends to the encoder's tape, and what it finds is fused with what it has in one of two ways:
``shallow``, outside the recurrence, where words are read off [context; h]; or ``deep``, inside,
where a gate brings the encoder's memory into the decoder's.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from typing_extensions import override

from regard.functional import masks
from regard.layers.attention import MemoryAttention
from regard.layers.dropout import Dropout
from regard.layers.key_values import KeyValues
from regard.layers.tape import Tape, TapeAttention, TapeCell, empty_tape, unroll
from regard.models.base import Output, SequenceModel
from regard.models.settings import MemoryNetworkConfig


@dataclass(frozen=True, slots=True)
class TapeMemory:
    """The encoder's tape to look at."""

    steps: KeyValues
    """k (B, 1, S, D); v (B, 1, S, D) its hidden states, with deep fusion (B, 1, S, 2D) both."""
    mask: Tensor
    """(B, 1, 1, S)"""

    def select(self, rows: Tensor) -> TapeMemory:
        """Rows of the batch by index, in that order."""
        return TapeMemory(self.steps.select(rows), self.mask.index_select(0, rows))


@dataclass(frozen=True, slots=True)
class TapeState:
    """The decoder between two words."""

    tape: Tape
    found: Tensor
    """(B, D): γ̃, what deep fusion found last in the encoder's hidden tape; zeros otherwise."""

    def select(self, rows: Tensor) -> TapeState:
        """Rows of the batch by index, in that order."""
        return TapeState(self.tape.select(rows), self.found.index_select(0, rows))


class TapeEncoder(nn.Module):
    """Source ids to a tape."""

    def __init__(self, config: MemoryNetworkConfig) -> None:
        super().__init__()
        self.tokens = nn.Embedding(config.n_source_vocab, config.d_model)
        self.dropout = Dropout(config.dropout)
        self.self_attention = _self_attention(config)
        self.cell = TapeCell(config.d_model, config.d_model)

    def forward(self, ids: Tensor, mask: Tensor) -> Tape:
        """ids (B, S), mask (B, 1, 1, S) -> the tape of all S steps."""
        words = self.dropout(self.tokens(ids))
        tape = empty_tape(words.new_zeros(words.shape[0], words.shape[2]))
        return unroll(self.cell, self.self_attention, words, tape, mask=mask)


class TapeDecoder(nn.Module):
    """What both fusions share: words, a tape of one's own, attention to the encoder's."""

    def __init__(self, config: MemoryNetworkConfig, d_out: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(config.n_target_vocab, config.d_model)
        self.dropout = Dropout(config.dropout)
        self.self_attention = _self_attention(config)
        self.cell = TapeCell(config.d_model, config.d_model)
        self.cross_attention = _cross_attention(config)
        self.to_logits = nn.Linear(d_out, config.n_target_vocab)

    def project(self, encoded: Tape) -> KeyValues:
        """The encoder's tape -> what to look at, once for all steps."""
        raise NotImplementedError

    def forward(
        self, ids: Tensor, memory: TapeMemory, state: TapeState
    ) -> tuple[Tensor, TapeState]:
        """ids (B, T) after ``state`` -> what words are read off (B, T, D), and the new state."""
        raise NotImplementedError

    def _unrolled(self, words: Tensor, tape: Tape, brought: Tensor | None) -> tuple[Tensor, Tape]:
        """Words (B, T, D) after the ``tape`` -> their h (B, T, D), and the tape with them on it."""
        after = unroll(self.cell, self.self_attention, words, tape, brought=brought)
        return after.hidden[:, tape.length :], after


class ShallowDecoder(TapeDecoder):
    """Attention to the encoder comes after the recurrence, so that all steps look at once."""

    def __init__(self, config: MemoryNetworkConfig) -> None:
        super().__init__(config, d_out=2 * config.d_model)

    @override
    def project(self, encoded: Tape) -> KeyValues:
        return self.cross_attention.project(encoded.hidden)

    @override
    def forward(
        self, ids: Tensor, memory: TapeMemory, state: TapeState
    ) -> tuple[Tensor, TapeState]:
        words = self.dropout(self.tokens(ids))
        h, tape = self._unrolled(words, state.tape, None)
        context = self.cross_attention.look(
            h, memory.steps, mask=memory.mask, first=state.tape.length
        )
        out = torch.cat((context, h), dim=-1)
        return self.dropout(out), TapeState(tape, state.found)


class DeepDecoder(TapeDecoder):
    """What is found in the encoder's tapes, γ̃ and α̃, goes into the recurrence.

        r = σ(W_r [γ̃; x])
        c = r ∘ α̃ + f ∘ c̃ + i ∘ ĉ

    Who asks the encoder is the word and the last γ̃, as on a tape of one's own.
    """

    def __init__(self, config: MemoryNetworkConfig) -> None:
        super().__init__(config, d_out=config.d_model)
        self.asks = nn.Linear(config.d_model, config.d_model, bias=False)
        self.gate = nn.Linear(2 * config.d_model, config.d_model)

    @override
    def project(self, encoded: Tape) -> KeyValues:
        return self.cross_attention.project(encoded.hidden, encoded.steps.v[:, 0])

    @override
    def forward(
        self, ids: Tensor, memory: TapeMemory, state: TapeState
    ) -> tuple[Tensor, TapeState]:
        words = self.dropout(self.tokens(ids))
        found, contents = self._found(words, memory, state)
        r = self.gate(torch.cat((found, words), dim=-1)).sigmoid()
        h, tape = self._unrolled(words, state.tape, r * contents)
        return self.dropout(h), TapeState(tape, found[:, -1])

    def _found(self, words: Tensor, memory: TapeMemory, state: TapeState) -> tuple[Tensor, Tensor]:
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
        self.encoder = TapeEncoder(config)
        self.decoder: TapeDecoder = (
            DeepDecoder(config) if config.fusion == "deep" else ShallowDecoder(config)
        )

    @override
    def states(self, source: Tensor, target: Tensor) -> Tensor:
        memory = self.encode(source)
        states, _ = self.decoder(target, memory, self.start(memory))
        return states

    @override
    def output(self) -> Output:
        return Output(self.decoder.to_logits.weight, self.decoder.to_logits.bias)

    @override
    def encode(self, source: Tensor) -> TapeMemory:
        mask = masks.padding(source, pad=self.config.pad_id)
        return TapeMemory(self.decoder.project(self.encoder(source, mask)), mask)

    @override
    def start(self, memory: TapeMemory) -> TapeState:
        nothing = torch.zeros_like(memory.steps.k[:, 0, 0])
        return TapeState(empty_tape(nothing), nothing)

    @override
    def step(self, ids: Tensor, memory: TapeMemory, state: TapeState) -> tuple[Tensor, TapeState]:
        states, state = self.decoder(ids.unsqueeze(1), memory, state)
        return self.logits(states.squeeze(1)), state


def _self_attention(config: MemoryNetworkConfig) -> TapeAttention:
    """Attention to one's own tape; it is never hard."""
    d = config.d_model
    return TapeAttention(d, d, score=config.score, max_len=config.max_len, beta=config.beta)


def _cross_attention(config: MemoryNetworkConfig) -> MemoryAttention:
    """Attention to the encoder's tape."""
    d = config.d_model
    return MemoryAttention(
        d,
        d,
        score=config.score,
        normaliser=config.normaliser,
        max_len=config.max_len,
        beta=config.beta,
    )
