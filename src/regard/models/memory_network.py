"""Encoder and decoder as Long Short-Term Memory-Networks (Cheng et al. 2016).

Where an LSTM has one h and one c, a memory-network has a tape of all it had, and at every step
recalls a mixture of them by attention. The decoder also attends to the encoder's tape, and what it
finds is fused with what it has in one of two ways: ``shallow``, outside the recurrence, where words
are read off [context; h]; or ``deep``, inside, where a gate brings the encoder's memory into the
decoder's. All that the words alone decide is computed before the first step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from typing_extensions import override

from regard.functional import masks
from regard.kernels import call
from regard.kernels.attending_recurrence import MOST_KEYS
from regard.kernels.memory_tape import TapeWeights, fed_looks, unrolled_tape
from regard.layers.attention import MemoryAttention
from regard.layers.attentive_cell import source_attention
from regard.layers.dropout import Dropout
from regard.layers.embeddings import readout, word_table
from regard.layers.key_values import KeyValues, SourceMemory
from regard.layers.recurrence import begin_gates, open_forget_gates
from regard.layers.score import PreparedScore
from regard.layers.settings import Beta
from regard.layers.viewpoint import Seen
from regard.models.base import SequenceModel
from regard.models.settings import RecurrentWordsConfig


class MemoryNetworkConfig(RecurrentWordsConfig):
    """Long Short-Term Memory-Networks as encoder and decoder."""

    family: Literal["memory_network"] = "memory_network"
    fusion: Literal["shallow", "deep"] = Field(
        "deep", description="Where the decoder joins what it found in the source."
    )
    score: str = Field("additive", description="How queries are matched with keys.")


@dataclass(frozen=True, slots=True)
class MemoryTape:
    """All steps so far. Never changed in place."""

    steps: KeyValues
    """k (B, 1, T, D): h as the score wants its keys; v (B, 1, T, 2D): h and c side by side."""
    recalled: Tensor
    """(B, D): h̃ of the last step, which asks in the next; zeros before the first."""

    @property
    def length(self) -> int:
        """Steps so far."""
        return self.steps.k.shape[-2]

    @property
    def hidden(self) -> Tensor:
        """(B, T, D): the hidden tape, h of every step."""
        return self.steps.v[:, 0].chunk(2, dim=-1)[0]

    def select(self, rows: Tensor) -> MemoryTape:
        """Rows of the batch by index, in that order."""
        return MemoryTape(self.steps.select(rows), self.recalled.index_select(0, rows))


class TapeAttention(MemoryAttention):
    """Attention to the steps before. The word and what was recalled last ask together.

    The query is W x_t + h̃_{t-1}. With the score ``additive`` that is the paper's
    vᵀtanh(W_h h_i + W_x x_t + W_h̃ h̃_{t-1}), where W_h̃ is the score's matrix and W_x is W_h̃ W: as
    many numbers and the same functions, but now every score can be used.
    """

    def __init__(
        self, d_word: int, d_hidden: int, *, score: str, max_len: int = 512, beta: Beta = "fixed"
    ) -> None:
        super().__init__(d_hidden, d_hidden, score=score, max_len=max_len, beta=beta)
        self.words = nn.Linear(d_word, d_hidden, bias=False)

    def recall(self, q: Tensor, steps: KeyValues) -> Tensor:
        """q (B, D) -> h̃ and c̃ side by side (B, 2D); zeros where there was no step yet."""
        if steps.k.shape[-2] == 0:
            return q.new_zeros(q.shape[0], 2 * q.shape[1])
        seen = self._seen(q[:, None, None], steps)  # one head, one query
        if self.view.edited:
            seen = self.view.change(seen)
        return seen.values()[:, 0, 0]

    def entry(self, h: Tensor, c: Tensor) -> KeyValues:
        """h, c (B, D) as one more step, whose key is projected here and never again."""
        both = torch.cat((h, c), dim=-1)[:, None, None]
        return KeyValues(self.score.prepare(h[:, None, None]), both)

    def show(self, queries: list[Tensor], steps: KeyValues, mask: Tensor | None) -> None:
        """All queries (B, D) at once to whoever watches; they are those of the last steps.

        An edit has changed each step; it changes all of them here again, and in the same way.
        """
        # Counted from one step earlier: a step sees what came before it, and never itself.
        before = masks.causal(len(queries) + 1, steps.k.shape[-2], device=steps.k.device)[:-1]
        asks = torch.stack(queries, dim=1).unsqueeze(1)
        self.view(self._seen(asks, steps, masks.both(mask, before)))

    def _seen(self, q: Tensor, steps: KeyValues, mask: Tensor | None = None) -> Seen:
        score = PreparedScore(self.score)
        return Seen(q, steps.k, steps.v, score, self.normaliser, None, mask, causal=False)


class TapeCell(nn.Module):
    """One step of an LSTM that goes on from what was recalled, not from the step before.

        (i, f, o, ĉ) = (σ, σ, σ, tanh)(W [h̃; x])
        c = f ∘ c̃ + i ∘ ĉ
        h = o ∘ tanh(c)

    Deep fusion adds to c what was brought from another tape.
    """

    def __init__(self, d_word: int, d_hidden: int) -> None:
        super().__init__()
        self.words = nn.Linear(d_word, 4 * d_hidden)
        open_forget_gates(self.words.bias)
        self.recalled = nn.Linear(d_hidden, 4 * d_hidden, bias=False)
        begin_gates(self.words.weight, self.recalled.weight)

    def forward(
        self, read: Tensor, h: Tensor, c: Tensor, brought: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """A word's part ``words(x)`` (B, 4D), h̃ and c̃ (B, D), what is brought (B, D) -> h, c."""
        gates = read + self.recalled(h)
        d = h.shape[-1]
        i, f, o = gates[..., : 3 * d].sigmoid().chunk(3, dim=-1)
        new = f * c + i * gates[..., 3 * d :].tanh()
        if brought is not None:
            new = new + brought
        return o * new.tanh(), new


def empty_tape(like: Tensor) -> MemoryTape:
    """The tape before the first step, for rows as in ``like`` (B, D)."""
    nothing = like.new_zeros(like.shape[0], 1, 0, like.shape[1])
    steps = KeyValues(nothing, torch.cat((nothing, nothing), dim=-1))
    return MemoryTape(steps, torch.zeros_like(like))


def unroll(
    cell: TapeCell,
    attends: TapeAttention,
    x: Tensor,
    tape: MemoryTape,
    *,
    brought: Tensor | None = None,
    mask: Tensor | None = None,
) -> MemoryTape:
    """Words x (B, T, d_word) after the ``tape`` -> the tape with them on it.

    ``brought`` (B, T, D) is what deep fusion adds to each step's c. ``mask`` (B, 1, 1, T) says
    which words are real; they come first, so no real step ever sees another kind, and the mask is
    for those who watch.
    """
    if (recorded := _recorded(cell, attends, x, tape, brought)) is not None:
        return recorded
    reads, asks = cell.words(x).unbind(dim=1), attends.words(x).unbind(dim=1)
    extra = [None] * len(reads) if brought is None else brought.unbind(dim=1)
    steps, h, queries = tape.steps, tape.recalled, []
    for read, ask, more in zip(reads, asks, extra, strict=True):
        queries.append(ask + h)
        h, c = attends.recall(queries[-1], steps).chunk(2, dim=-1)
        entry = attends.entry(*cell(read, h, c, more))
        steps = steps.extended(entry) if steps.k.shape[-2] else entry
    if queries and attends.view.watched:
        attends.show(queries, steps, mask)
    return MemoryTape(steps, h)


def _recorded(
    cell: TapeCell, attends: TapeAttention, x: Tensor, tape: MemoryTape, brought: Tensor | None
) -> MemoryTape | None:
    """All steps on an empty tape by one function, where a kernel takes them."""
    known = tape.length == 0 and attends.score.name == "additive" and not attends.view.watched
    if not call.is_recorded(x) or not known or not 1 <= x.shape[1] <= MOST_KEYS:
        return None
    learned = attends.score.learned
    w_query, w_key, v = (learned[name] for name in ("w_query", "w_key", "v"))
    asked = attends.words(x) @ w_query
    weights = TapeWeights(w_query, w_key, v, cell.recalled.weight)
    both, last = unrolled_tape(cell.words(x), asked, weights, brought)
    both = both.unsqueeze(1)
    keys = attends.score.prepare(both.chunk(2, dim=-1)[0])
    return MemoryTape(KeyValues(keys, both), last)


@dataclass(frozen=True, slots=True)
class TapeState:
    """The decoder between two words."""

    tape: MemoryTape
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

    def forward(self, ids: Tensor, mask: Tensor) -> MemoryTape:
        """ids (B, S), mask (B, 1, 1, S) -> the tape of all S steps."""
        words = self.dropout(self.tokens(ids))
        tape = empty_tape(words.new_zeros(words.shape[0], words.shape[2]))
        return unroll(self.cell, self.self_attention, words, tape, mask=mask)


class TapeDecoder(nn.Module):
    """Words, a tape of one's own, attention to the encoder's, and a fusion of the two.

    ``shallow``: attention to the encoder comes after the recurrence, so that all steps look at
    once. ``deep``: what is found in the encoder's tapes, γ̃ and α̃, goes into the recurrence,

        r = σ(W_r [γ̃; x])
        c = r ∘ α̃ + f ∘ c̃ + i ∘ ĉ

    and who asks the encoder is the word and the last γ̃, as on a tape of one's own.
    """

    def __init__(self, config: MemoryNetworkConfig) -> None:
        super().__init__()
        d = config.d_model
        self.deep = config.fusion == "deep"
        self.tokens = word_table(config.n_target_vocab, d, tied=config.tied_output)
        self.dropout = Dropout(config.dropout)
        self.self_attention = _self_attention(config)
        self.cell = TapeCell(d, d)
        self.cross_attention = MemoryAttention(d, d, **config.attention)
        d_out = d if self.deep else 2 * d
        self.to_words, self.to_logits = readout(d_out, self.tokens, tied=config.tied_output)
        if self.deep:
            self.asks = nn.Linear(d, d, bias=False)
            self.gate = nn.Linear(2 * d, d)

    def project(self, encoded: MemoryTape) -> KeyValues:
        """The encoder's tape -> what to look at, once for all steps.

        k (B, 1, S, D); v (B, 1, S, D) its hidden states, with deep fusion (B, 1, S, 2D) both.
        """
        values = encoded.steps.v[:, 0] if self.deep else None
        return self.cross_attention.project(encoded.hidden, values)

    def forward(
        self, ids: Tensor, memory: SourceMemory, state: TapeState
    ) -> tuple[Tensor, TapeState]:
        """ids (B, T) after ``state`` -> what words are read off (B, T, D), and the new state."""
        words = self.dropout(self.tokens(ids))
        first, found, brought = state.tape.length, state.found, None
        if self.deep:
            hidden, contents = self._found(words, memory, state)
            found = hidden[:, -1]
            brought = self.gate(torch.cat((hidden, words), dim=-1)).sigmoid() * contents
        tape = unroll(self.cell, self.self_attention, words, state.tape, brought=brought)
        out = tape.hidden[:, first:]
        if not self.deep:
            (steps,) = memory.layers
            context = self.cross_attention.look(out, steps, mask=memory.mask, first=first)
            out = torch.cat((context, out), dim=-1)
        return self.dropout(self.to_words(out)), TapeState(tape, found)

    def _found(
        self, words: Tensor, memory: SourceMemory, state: TapeState
    ) -> tuple[Tensor, Tensor]:
        """γ̃ and α̃ (B, T, D) of every word: they wait for each other, but not for the tape."""
        (steps,), attention = memory.layers, self.cross_attention
        asks = "w_query" in attention.score.learned  # through a matrix, as kernels have it
        recorded = call.is_recorded(words) and asks
        source = source_attention(attention, steps, memory.mask) if recorded else None
        if source is not None and source.w_query is not None:
            asked = self.asks(words) @ source.w_query
            hidden, contents = fed_looks(asked, source, state.found).chunk(2, dim=-1)
            return hidden, contents
        found, both, look = state.found.unsqueeze(1), [], attention.look
        for first, ask in enumerate(self.asks(words).split(1, dim=1), state.tape.length):
            both.append(look(ask + found, steps, mask=memory.mask, first=first))  # (B, 1, 2D)
            found = both[-1].chunk(2, dim=-1)[0]
        hidden, contents = torch.cat(both, dim=1).chunk(2, dim=-1)
        return hidden, contents


class MemoryNetwork(SequenceModel):
    """Speaks the protocol of ``regard.decoding``: forward, encode, start, step."""

    def __init__(self, config: MemoryNetworkConfig) -> None:
        super().__init__()
        self.config: MemoryNetworkConfig = config
        self.encoder = TapeEncoder(config)
        self.decoder: TapeDecoder = TapeDecoder(config)

    @override
    def encode(self, source: Tensor) -> SourceMemory:
        mask = masks.padding(source, pad=self.config.pad_id)
        return SourceMemory((self.decoder.project(self.encoder(source, mask)),), mask)

    @override
    def start(self, memory: SourceMemory) -> TapeState:
        nothing = torch.zeros_like(memory.layers[0].k[:, 0, 0])
        return TapeState(empty_tape(nothing), nothing)


def _self_attention(config: MemoryNetworkConfig) -> TapeAttention:
    """Attention to one's own tape; it is never hard."""
    d = config.d_model
    return TapeAttention(d, d, score=config.score, max_len=config.max_len, beta=config.beta)
