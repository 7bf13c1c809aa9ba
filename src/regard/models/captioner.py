"""Models that say what a picture shows: the decoders of three papers over one encoder.

``show-and-tell2014`` (Vinyals et al. 2015): the picture is the first thing that the LSTM reads, and
never seen again. ``show-attend-tell2015`` (Xu et al. 2015): before every word the decoder looks at
the grid of the encoder's vectors; what it finds, times a gate β, goes into the LSTM's gates and
into the output. ``transformer-captioner``: the Transformer's decoder, looking at the same grid.

The encoder is a small convolutional network, or patches with encoder blocks over them. All speak
the protocol of ``regard.decoding``: a source is pixels (B, 3, H, W).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn
from typing_extensions import override

from regard.functional.attend import is_drawn
from regard.layers.attention import MemoryAttention
from regard.layers.context_cells import ContextLSTM
from regard.layers.dropout import Dropout
from regard.layers.embeddings import token_embedding
from regard.layers.key_values import DecoderState, KeyValues, SourceMemory
from regard.layers.recurrence import open_forget_gates
from regard.layers.settings import Count
from regard.models.base import LazyLogits, Output, SequenceModel
from regard.models.settings import EncoderDecoderConfig
from regard.models.transformer import TransformerDecoder
from regard.models.vision import PictureConfig, PictureEncoder


class CaptioningConfig(PictureConfig):
    """Of a model that writes about a picture."""

    LOOKS_ACROSS = True

    n_target_vocab: Count
    concepts: float = Field(
        0.0,
        ge=0,
        description="Weight of a second loss: which words stand in the captions of a picture, each "
        "read off some place of it (Fang et al. 2015). What encodes the picture learns by it long "
        "before what writes has learned to look.",
    )


class CaptionerConfig(CaptioningConfig):
    """A recurrent captioner over an encoder of pictures."""

    FROM_DATA = CaptioningConfig.FROM_DATA | {"begin_id"}

    family: Literal["captioner"] = "captioner"
    begin_id: int = 1
    """What stands before the first word: it is read as the zero vector."""
    decoder: Literal["tell", "attend"] = Field(
        "attend", description="Whether the picture is read once (tell) or looked at for each word."
    )
    query: Literal["previous", "current"] = Field(
        "previous",
        description="Which state of the LSTM looks: the one before it reads the last word, as the "
        "paper has it, or the one after, which alone can look for a red thing because it just "
        "said red.",
    )
    score: str = Field("additive", description="How queries are matched with keys.")
    n_layers: int = Field(0, ge=0, description="Blocks of attention in the encoder.")

    @property
    def idle(self) -> tuple[str, ...]:
        """Who looks, where nobody does."""
        return (*super().idle, *(("query",) if self.decoder == "tell" else ()))


class TransformerCaptionerConfig(EncoderDecoderConfig, CaptioningConfig):
    """A Transformer whose source is a picture."""

    family: Literal["transformer_captioner"] = "transformer_captioner"

    def problems(self) -> Iterator[str]:
        """Memory of each layer, which an encoder of pictures does not keep."""
        yield from super().problems()
        if self.memory == "each":
            yield "memory 'each' is for texts: leave it out"


class ConceptHead(nn.Linear):
    """Which words a picture brings to mind, by multiple-instance learning.

    Every place of the grid votes for every word, and a word's logit is log mean exp of its votes:
    one place that shows it is enough.
    """

    @override
    def forward(self, states: Tensor) -> Tensor:
        """(B, N, D) -> (B, V)"""
        votes = super().forward(states).float()
        return votes.logsumexp(dim=1) - math.log(votes.shape[1])

    def loss(self, states: Tensor, target: Tensor, of: Tensor, *, first_word: int) -> Tensor:
        """Summed over pictures and words. Grids (B, N, D); ids (R, T), each of picture ``of`` (R,).

        Ids below ``first_word``, such as padding, are no words of a picture.

        >>> head = ConceptHead(4, 7)
        >>> ids, of = torch.tensor([[3, 5], [5, 6]]), torch.tensor([0, 0])
        >>> head.loss(torch.zeros(1, 9, 4), ids, of, first_word=3).dim()
        0
        """
        logits = self(states)
        said = torch.zeros_like(logits)
        said[of.unsqueeze(1), target] = 1.0
        logits, said = logits[:, first_word:], said[:, first_word:]
        return F.binary_cross_entropy_with_logits(logits, said, reduction="sum")


class CaptionModel(SequenceModel):
    """A model of pictures (B, 3, H, W) to captions, of which a picture may have several."""

    encoder: PictureEncoder
    concepts: ConceptHead | None

    @override
    def forward(
        self, source: Tensor, target: Tensor, of: Tensor | None = None, *, lazy: bool = False
    ) -> Tensor | LazyLogits:
        """Pictures (B, …), target ids (R, T) -> logits (R, T, V).

        ``of`` (R,) says which picture each target is of, where there are not as many; a picture is
        encoded once for all its targets.
        """
        return self.said(self.states(source, target, of), lazy)

    @override
    def states(self, source: Tensor, target: Tensor, of: Tensor | None = None) -> Tensor:
        memory = self.encode(source)
        memory = memory if of is None else memory.select(of)
        return self.read(target, memory, self.start(memory))[0]


# ------------------------------------------------------------------ recurrent captioners


@dataclass(frozen=True, slots=True)
class PictureMemory:
    """What the decoder looks at: the encoder's vectors, projected, and their mean."""

    keys_values: KeyValues
    mask: Tensor
    """(B, 1, 1, N): all True, as a picture has no padding."""
    mean: Tensor
    """(B, D)"""

    def first(self, n: int) -> PictureMemory:
        """The first n rows."""
        k, v = self.keys_values.k[:n], self.keys_values.v[:n]
        return PictureMemory(KeyValues(k, v), self.mask[:n], self.mean[:n])

    def select(self, rows: Tensor) -> PictureMemory:
        """Rows of the batch by index, in that order."""
        mask, mean = self.mask.index_select(0, rows), self.mean.index_select(0, rows)
        return PictureMemory(self.keys_values.select(rows), mask, mean)


@dataclass(frozen=True, slots=True)
class CaptionState:
    """The LSTM between two words."""

    h: Tensor
    c: Tensor
    length: int = 0
    seen: Tensor | None = None
    """(B, D): what was found for the last word, where the next state reads it."""

    def select(self, rows: Tensor) -> CaptionState:
        """Rows of the batch by index, in that order."""
        return self._each(lambda x: x.index_select(0, rows))

    def split(self, n: int) -> tuple[CaptionState, CaptionState]:
        """The first n rows, and the others."""
        return self._each(lambda x: x[:n]), self._each(lambda x: x[n:])

    def followed_by(self, others: Sequence[CaptionState]) -> CaptionState:
        """These rows, then those of the others."""
        every = (self, *others)
        seen = [one.seen for one in every if one.seen is not None]
        h, c = torch.cat([one.h for one in every]), torch.cat([one.c for one in every])
        return CaptionState(h, c, self.length, torch.cat(seen) if seen else None)

    def _each(self, change: Callable[[Tensor], Tensor]) -> CaptionState:
        seen = None if self.seen is None else change(self.seen)
        return CaptionState(change(self.h), change(self.c), self.length, seen)


class TellDecoder(nn.Module):
    """Show and Tell: the picture enters once, as if it were the word before the first.

    The cell is the paper's: m = o ⊙ c, without a tanh.
    """

    def __init__(self, config: CaptionerConfig) -> None:
        super().__init__()
        d = config.d_model
        self.tokens = token_embedding(config.n_target_vocab, d)
        self.dropout = Dropout(config.dropout)
        self.from_input, self.from_state = nn.Linear(d, 4 * d), nn.Linear(d, 4 * d, bias=False)
        self.to_logits = nn.Linear(d, config.n_target_vocab)
        open_forget_gates(self.from_input.bias)

    def remember(self, states: Tensor) -> KeyValues:
        """Nothing of the grid (B, N, D) is looked at later."""
        nothing = states[:, :0].unsqueeze(1)
        return KeyValues(nothing, nothing)

    def start(self, memory: PictureMemory) -> CaptionState:
        """After reading the picture (B, D)."""
        zeros = torch.zeros_like(memory.mean)
        return self._read(memory.mean, CaptionState(zeros, zeros))

    def forward(
        self, ids: Tensor, _memory: PictureMemory, state: CaptionState
    ) -> tuple[Tensor, CaptionState]:
        """ids (B, T) after ``state`` -> what words are read off (B, T, D), and the new state."""
        outputs = []
        for word in self.dropout(self.tokens(ids)).unbind(dim=1):
            state = self._read(word, state)
            outputs.append(state.h)
        state = CaptionState(state.h, state.c, state.length + ids.shape[1])
        return self.dropout(torch.stack(outputs, dim=1)), state

    def _read(self, x: Tensor, state: CaptionState) -> CaptionState:
        i, f, g, o = (self.from_input(x) + self.from_state(state.h)).chunk(4, dim=-1)
        c = f.sigmoid() * state.c + i.sigmoid() * g.tanh()
        return CaptionState(o.sigmoid() * c, c, state.length)


class ContextGate(nn.Linear):
    """β = σ(w h + b): how much of what was seen counts for the next word. Watch it with a hook."""

    @override
    def forward(self, h: Tensor) -> Tensor:
        """(B, D) -> (B, 1)"""
        return super().forward(h).sigmoid()


class AttendDecoder(nn.Module):
    """Show, Attend and Tell: h_{t-1} asks; what is found enters the LSTM's gates and the output.

    ẑ_t = β_t Σ α_ti a_i with β_t = σ(w h_{t-1} + b). A word is read off E y_{t-1} + L_h h_t +
    L_z ẑ_t, as the paper writes it. The tanh of its authors' code, once saturated by the words,
    hides what is seen: colours of small pictures are then learned twice as late.

    h_{t-1} has not read y_{t-1}. With ``query: current`` the LSTM reads y_{t-1} and ẑ_{t-1}, and
    its new state h_t asks for ẑ_t.
    """

    def __init__(self, config: CaptionerConfig) -> None:
        super().__init__()
        d = config.d_model
        self.begin_id, self.pad_id = config.begin_id, config.pad_id
        self.asks_last, self.draws = config.query == "current", is_drawn(config.normaliser)
        self.tokens = token_embedding(config.n_target_vocab, d)
        self.dropout = Dropout(config.dropout)
        self.cross_attention = MemoryAttention(
            d, d, score=config.score, normaliser=config.normaliser, max_len=config.max_len
        )
        self.gate = ContextGate(d, 1)
        self.cell = ContextLSTM(d, d, d)
        self.begin = nn.Linear(d, d)
        self.begin_h, self.begin_c = nn.Linear(d, d), nn.Linear(d, d)
        self.from_state, self.from_context = nn.Linear(d, d), nn.Linear(d, d, bias=False)
        self.to_logits = nn.Linear(d, config.n_target_vocab)

    def remember(self, states: Tensor) -> KeyValues:
        """The grid (B, N, D) as attention wants it."""
        return self.cross_attention.project(states)

    def start(self, memory: PictureMemory) -> CaptionState:
        """c_0 and h_0 from the mean of the grid."""
        x = self.begin(memory.mean).relu()
        seen = torch.zeros_like(memory.mean) if self.asks_last else None
        return CaptionState(self.begin_h(x).tanh(), self.begin_c(x).tanh(), seen=seen)

    def forward(
        self, ids: Tensor, memory: PictureMemory, state: CaptionState
    ) -> tuple[Tensor, CaptionState]:
        """ids (B, T) after ``state`` -> what words are read off (B, T, D), and the new state."""
        words = self.tokens(ids).masked_fill((ids == self.begin_id).unsqueeze(-1), 0.0)
        words, n_rows = self.dropout(words), len(ids)
        length, ended, states, shown = state.length, [], [], []
        steps = zip(self.cell.words(words).unbind(dim=1), self._reading(ids), strict=True)
        for t, (read, n) in enumerate(steps, length):
            if n < len(state.h):
                state, others = state.split(n)
                memory = memory.first(n)
                ended.append(others)
            state, seen = self._step(read[:n], memory, state, t)
            states.append(_rows(state.h, n_rows))
            shown.append(_rows(seen, n_rows))
        said = self.dropout(torch.stack(states, dim=1))
        deep = words + self.from_state(said) + self.from_context(torch.stack(shown, dim=1))
        after = state.followed_by(ended[::-1]) if ended else state
        return self.dropout(deep), replace(after, length=length + ids.shape[1])

    def _reading(self, ids: Tensor) -> list[int]:
        """Before which row all rows have ended, at each step: ids (B, T), no padding before a word.

        In training on a CPU these are left out, unless somebody counts on all of them: of captions
        of one picture, the longest first, many are half as long as the first.
        """
        n_rows, n_steps = ids.shape
        needed = self.cross_attention.view.watched or self.draws
        if not self.training or ids.device.type != "cpu" or needed:
            return [n_rows] * n_steps
        numbers = torch.arange(1, n_rows + 1).unsqueeze(1)
        return ((ids != self.pad_id) * numbers).amax(dim=0).clamp(min=1).tolist()

    def _step(
        self, read: Tensor, memory: PictureMemory, state: CaptionState, t: int
    ) -> tuple[CaptionState, Tensor]:
        """A word's part of the gates (B, 4D) -> the new state, and what was seen (B, D)."""
        if state.seen is None:
            seen = self._look(state.h, memory, t)
            h, c = self.cell(read, self.cell.context(seen), state.h, state.c)
            fed = None
        else:
            h, c = self.cell(read, self.cell.context(state.seen), state.h, state.c)
            fed = seen = self._look(h, memory, t)
        assert c is not None, "an LSTM has one"
        return CaptionState(h, c, state.length, fed), seen

    def _look(self, h: Tensor, memory: PictureMemory, t: int) -> Tensor:
        """ẑ_t (B, D): what the state (B, D) finds, times its gate."""
        found = self.cross_attention.look(
            h.unsqueeze(1), memory.keys_values, mask=memory.mask, first=t
        )
        return self.gate(h) * found.squeeze(1)


def _rows(x: Tensor, n: int) -> Tensor:
    """(B, D) with zeros below -> (n, D)"""
    return x if len(x) == n else F.pad(x, (0, 0, 0, n - len(x)))


class Captioner(CaptionModel):
    """A recurrent captioner."""

    def __init__(self, config: CaptionerConfig) -> None:
        super().__init__()
        self.config = config  # type: ignore[assignment]
        self.encoder = PictureEncoder(config)
        kind = TellDecoder if config.decoder == "tell" else AttendDecoder
        self.decoder: TellDecoder | AttendDecoder = kind(config)
        self.concepts = concept_head(config)

    @override
    def encode(self, source: Tensor) -> PictureMemory:
        states = self.encoder(source)
        return PictureMemory(self.decoder.remember(states), _all_seen(states), states.mean(dim=1))

    @override
    def start(self, memory: PictureMemory) -> CaptionState:
        return self.decoder.start(memory)


class TransformerCaptioner(CaptionModel):
    """The Transformer's decoder over a picture."""

    def __init__(self, config: TransformerCaptionerConfig) -> None:
        super().__init__()
        self.config = config  # type: ignore[assignment]
        self.encoder = PictureEncoder(config)
        tokens = token_embedding(config.n_target_vocab, config.d_tokens)
        self.decoder: TransformerDecoder = TransformerDecoder(config, tokens)
        self.concepts = concept_head(config)

    @override
    def output(self) -> Output:
        return self.decoder.output()

    @override
    def encode(self, source: Tensor) -> SourceMemory:
        states = self.encoder(source)
        return SourceMemory(self.decoder.project(states), _all_seen(states))

    @override
    def start(self, memory: SourceMemory) -> DecoderState:
        return DecoderState(tuple(layer.emptied() for layer in memory.layers))


def concept_head(config: CaptioningConfig) -> ConceptHead | None:
    """What the second loss is read from, where there is one."""
    return ConceptHead(config.d_model, config.n_target_vocab) if config.concepts else None


def _all_seen(states: Tensor) -> Tensor:
    """(B, 1, 1, N): every vector of the grid (B, N, D) may be looked at."""
    return states.new_ones(states.shape[0], 1, 1, states.shape[1], dtype=torch.bool)


def doubly_stochastic(weights: Tensor, real: Tensor) -> Tensor:
    """Σ_i (1 - Σ_t α_ti)², summed over pictures: every part of one should be looked at in the end.

    weights (B, T, N), real (B, T): no padding.
    """
    total = (weights * real.unsqueeze(-1)).sum(dim=1)  # (B, N)
    return F.mse_loss(total, torch.ones_like(total), reduction="sum")
