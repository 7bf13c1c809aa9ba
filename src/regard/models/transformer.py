"""The encoder-decoder Transformer (Vaswani et al. 2017).

Post-norm and sinusoids by default, dropout on the embeddings and on what each sub-layer adds, one
matrix for both embeddings and the output where the vocabulary is shared. Score, window, positions
and the place of the norm are settings, and so is what other people's Transformers do otherwise:
another activation, a bias of the output, an output matrix of its own, embeddings as they are, a
source id that nobody looks at.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, cast

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from regard.functional import masks
from regard.functional.scores import SCORES
from regard.functional.texts import Packing, Texts
from regard.layers.attention import MultiHeadAttention
from regard.layers.embeddings import InputEmbedding, token_embedding
from regard.layers.feed_forward import FeedForward
from regard.layers.key_values import KeyValues
from regard.layers.positions import make_positions
from regard.layers.residual import Residual
from regard.models.base import LazyLogits, Output, SequenceConfig, SequenceModel
from regard.models.settings import (
    ActivationName,
    NormaliserName,
    PositionsName,
    ScoreName,
    WindowName,
)


class TransformerConfig(SequenceConfig):
    """What makes one Transformer differ from another."""

    family: Literal["transformer"] = "transformer"
    d_model: int = Field(512, ge=1)
    n_layers: int = Field(6, ge=1)
    n_heads: int = Field(8, ge=1)
    d_ff: int = Field(2048, ge=1)
    dropout: float = Field(0.1, ge=0.0, lt=1.0)
    norm_first: bool = False
    bias: bool = True
    score: ScoreName = "scaled_dot"
    window: WindowName = "global"
    half_width: int = Field(10, ge=1)
    normaliser: NormaliserName = "softmax"
    positions: PositionsName = "sinusoidal"
    join: Literal["add", "concat"] | None = None
    activation: ActivationName = "relu"
    embedding_scale: bool = True
    output_bias: bool = False
    tied_output: bool = True
    hidden_source_id: int | None = None
    """An id that is hidden as padding is: some models read no end token."""

    @model_validator(mode="after")
    def _fits_together(self) -> TransformerConfig:
        problems = []
        if self.d_model % self.n_heads:
            problems.append(f"d_model={self.d_model} is not a multiple of n_heads={self.n_heads}")
        if self.positions == "index" and self.join == "add":
            problems.append("positions 'index' appends a number: join must be 'concat'")
        if self._in_attention and self.join is not None:
            problems.append(f"positions {self.positions!r} join no token: leave out 'join'")
        if self.positions == "rotary" and self.d_model // self.n_heads % 2:
            problems.append(
                f"positions 'rotary' turn pairs of numbers, and a head has "
                f"{self.d_model // self.n_heads}; choose an even d_model / n_heads"
            )
        if self.shared_vocab and self.n_source_vocab != self.n_target_vocab:
            problems.append(
                f"a shared vocabulary has one size, not {self.n_source_vocab} and "
                f"{self.n_target_vocab}"
            )
        if problems:
            raise ValueError("; ".join(problems))
        return self

    @property
    def longest(self) -> int | None:
        """Learned positions end with their table."""
        return self.max_len if self.positions == "learned" else None

    @property
    def packs(self) -> bool:
        """Kernels for packed texts take inner products, a softmax, no window and no bias."""
        plain = (self.window, self.normaliser) == ("global", "softmax") and not self._in_attention
        return plain and self.hidden_source_id is None and SCORES[self.score].factors is not None

    @property
    def _in_attention(self) -> bool:
        """Whether positions are told inside self-attention, not at the embedding."""
        return self.positions in ("alibi", "rotary")

    def attention(self, *, cross: bool = False) -> MultiHeadAttention:
        """An attention as these settings want it; only one that looks across may be hard."""
        return MultiHeadAttention(
            self.d_model,
            self.n_heads,
            score=self.score,
            window=self.window,
            normaliser=self.normaliser if cross else "softmax",
            positions=self.positions if self._in_attention and not cross else "none",
            bias=self.bias,
            half_width=self.half_width,
            max_len=self.max_len,
        )

    def residual(self) -> Residual:
        """A residual connection as these settings want it."""
        return Residual(self.d_model, dropout=self.dropout, norm_first=self.norm_first)

    def feed_forward(self) -> FeedForward:
        """A feed-forward network as these settings want it."""
        return FeedForward(self.d_model, self.d_ff, bias=self.bias, activation=self.activation)

    def embedding(self, tokens: nn.Embedding) -> InputEmbedding:
        """Tokens joined with positions as these settings want it."""
        join = self.join or ("concat" if self.positions == "index" else "add")
        positions = make_positions(self.positions, self.d_model, join=join, max_len=self.max_len)
        return InputEmbedding(tokens, positions, dropout=self.dropout, scaled=self.embedding_scale)

    def last_norm(self) -> nn.Module:
        """Pre-norm leaves the stream unnormalised at the end; post-norm does not."""
        return nn.LayerNorm(self.d_model) if self.norm_first else nn.Identity()


@dataclass(frozen=True, slots=True)
class Memory:
    """What the decoder looks at: each layer's keys and values of the source, and its mask."""

    layers: tuple[KeyValues, ...]
    mask: Tensor | Texts
    """(B, 1, 1, S), or the texts of a packed row."""

    def select(self, rows: Tensor) -> Memory:
        """Rows of the batch by index, in that order."""
        assert isinstance(self.mask, Tensor), "a packed row is trained on, not decoded from"
        layers = tuple(layer.select(rows) for layer in self.layers)
        return Memory(layers, self.mask.index_select(0, rows))


@dataclass(frozen=True, slots=True)
class State:
    """What the decoder has written so far: each layer's keys and values of the target."""

    layers: tuple[KeyValues, ...]

    @property
    def length(self) -> int:
        """Tokens written so far."""
        return self.layers[0].k.shape[-2]

    def select(self, rows: Tensor) -> State:
        """Rows of the batch by index, in that order."""
        return State(tuple(layer.select(rows) for layer in self.layers))


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.self_attention = config.attention()
        self.feed_forward = config.feed_forward()
        self.around_self = config.residual()
        self.around_feed_forward = config.residual()

    def forward(self, x: Tensor, mask: Tensor | Texts) -> Tensor:
        """x (B, S, D), mask (B, 1, 1, S) -> (B, S, D)."""
        x = self.around_self.leave(x, self.self_attention(self.around_self.enter(x), mask=mask))
        return _fed_forward(self.around_feed_forward, self.feed_forward, x)


class DecoderLayer(nn.Module):
    """Masked self-attention, attention to the source, then feed-forward."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.self_attention = config.attention()
        self.cross_attention = config.attention(cross=True)
        self.feed_forward = config.feed_forward()
        self.around_self = config.residual()
        self.around_cross = config.residual()
        self.around_feed_forward = config.residual()

    def forward(
        self,
        x: Tensor,
        past: KeyValues,
        source: KeyValues,
        source_mask: Tensor | Texts,
        mask: Texts | None = None,
    ) -> tuple[Tensor, KeyValues]:
        """x (B, T, D) after the ``past`` -> (B, T, D) and the past with x in it."""
        first = past.k.shape[-2]
        y = self.around_self.enter(x)
        new = self.self_attention.project(y)
        present = past.extended(new) if first else new
        x = self.around_self.leave(
            x, self.self_attention.look(y, present, mask=mask, causal=True, first=first)
        )
        y = self.around_cross.enter(x)
        x = self.around_cross.leave(
            x, self.cross_attention.look(y, source, mask=source_mask, first=first)
        )
        return _fed_forward(self.around_feed_forward, self.feed_forward, x), present


def _fed_forward(around: Residual, feed_forward: FeedForward, x: Tensor) -> Tensor:
    return around.leave(x, feed_forward(around.enter(x)))


class Encoder(nn.Module):
    """Source ids to vectors."""

    def __init__(self, config: TransformerConfig, tokens: nn.Embedding) -> None:
        super().__init__()
        self.embedding = config.embedding(tokens)
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.n_layers))
        self.norm = config.last_norm()

    def forward(self, ids: Tensor, mask: Tensor | Texts, first: int | Tensor = 0) -> Tensor:
        """ids (B, S), beginning at position ``first`` or at these places -> (B, S, D)."""
        x = self.embedding(ids, first)
        for layer in self.layers:
            x = layer(x, mask)
        return self.norm(x)


class Decoder(nn.Module):
    """Target ids and memory to vectors."""

    output_weight: nn.Parameter | None
    output_bias: nn.Parameter | None

    def __init__(self, config: TransformerConfig, tokens: nn.Embedding) -> None:
        super().__init__()
        self.embedding = config.embedding(tokens)
        self.layers = nn.ModuleList(DecoderLayer(config) for _ in range(config.n_layers))
        self.norm = config.last_norm()
        shape = tokens.weight.shape
        untied = None if config.tied_output else nn.Parameter(torch.randn(shape) * shape[1] ** -0.5)
        self.register_parameter("output_weight", untied)
        bias = nn.Parameter(torch.zeros(shape[0])) if config.output_bias else None
        self.register_parameter("output_bias", bias)

    def output(self) -> Output:
        """The output matrix is the embedding, as in the paper, unless it is one of its own."""
        weight = self.embedding.tokens.weight if self.output_weight is None else self.output_weight
        return Output(weight, self.output_bias)

    def project(self, encoded: Tensor) -> tuple[KeyValues, ...]:
        """Encoder output (B, S, D) -> each layer's keys and values of it."""
        layers = cast("Iterable[DecoderLayer]", self.layers)
        return tuple(layer.cross_attention.project(encoded) for layer in layers)

    def forward(
        self, ids: Tensor, memory: Memory, state: State, packing: Packing | None = None
    ) -> tuple[Tensor, State]:
        """ids (B, T) after ``state`` -> (B, T, D) and the state with them in it."""
        mask = None if packing is None else packing.among_targets()
        x = self.embedding(ids, state.length if packing is None else packing.target.places)
        present = []
        for layer, past, source in zip(self.layers, state.layers, memory.layers, strict=True):
            x, now = layer(x, past, source, memory.mask, mask)
            present.append(now)
        return self.norm(x), State(tuple(present))


class Transformer(SequenceModel):
    """Speaks the protocol of ``regard.decoding``: forward, encode, start, step."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config: TransformerConfig = config
        target = token_embedding(config.n_target_vocab, config.d_model)
        source = target
        if not config.shared_vocab:
            source = token_embedding(config.n_source_vocab, config.d_model)
        self.encoder = Encoder(config, source)
        self.decoder = Decoder(config, target)

    def forward(
        self, source: Tensor, target: Tensor, packing: Packing | None = None, *, lazy: bool = False
    ) -> Tensor | LazyLogits:
        """Logits as ``SequenceModel``; texts that lie end to end, (1, N), come with a packing."""
        states = self.states(source, target, packing)
        return LazyLogits(states, *self.output()) if lazy else self.logits(states)

    def states(self, source: Tensor, target: Tensor, packing: Packing | None = None) -> Tensor:
        """As ``SequenceModel.states``; texts that lie end to end, (1, N), come with a packing."""
        if packing is None:
            memory = self.encode(source)
            return self.decoder(target, memory, self.start(memory))[0]
        encoded = self.encoder(source, packing.among_sources(), packing.source.places)
        memory = Memory(self.decoder.project(encoded), packing.across())
        return self.decoder(target, memory, self.start(memory), packing)[0]

    def output(self) -> Output:
        """As the decoder has it."""
        return self.decoder.output()

    def encode(self, source: Tensor) -> Memory:
        """Source ids (B, S) -> what the decoder will look at."""
        mask = self.source_mask(source)
        return Memory(self.decoder.project(self.encoder(source, mask)), mask)

    def source_mask(self, source: Tensor) -> Tensor:
        """Source ids (B, S) -> (B, 1, 1, S): what may be looked at."""
        mask = masks.padding(source, pad=self.config.pad_id)
        if self.config.hidden_source_id is None:
            return mask
        return mask & masks.padding(source, pad=self.config.hidden_source_id)

    def start(self, memory: Memory) -> State:
        """Nothing is written yet."""
        return State(tuple(_empty(layer) for layer in memory.layers))

    def step(self, ids: Tensor, memory: Memory, state: State) -> tuple[Tensor, State]:
        """Last ids (B,) -> logits (B, V) of the next, and the state that knows them."""
        x, state = self.decoder(ids.unsqueeze(1), memory, state)
        return self.logits(x.squeeze(1)), state


def _empty(like: KeyValues) -> KeyValues:
    k = torch.empty_like(like.k[:, :, :0])
    return KeyValues(k, torch.empty_like(like.v[:, :, :0]))
