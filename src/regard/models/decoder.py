"""The decoder alone: a language model (Radford et al. 2018), from GPT-2 to LLaMA by its settings.

Always pre-norm, with a norm at the end. Initialised as GPT-2: a normal of 0.02, and less for what
is added to the residual stream, the more layers there are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from pydantic import Field, model_validator
from torch import Tensor, nn

from regard.functional.positions import BASE
from regard.layers.attention import MultiHeadAttention
from regard.layers.embeddings import InputEmbedding
from regard.layers.feed_forward import FeedForward
from regard.layers.key_values import KeyValues
from regard.layers.norms import make_norm
from regard.layers.positions import make_positions
from regard.layers.residual import Residual
from regard.models.base import LazyLogits, ModelConfig, Output, Switching

STD = 0.02
"""Of the weights at the beginning."""


class DecoderConfig(ModelConfig):
    """What makes one language model differ from another."""

    family: Literal["decoder"] = "decoder"
    n_vocab: int = Field(ge=1)
    d_model: int = Field(256, ge=1)
    n_layers: int = Field(4, ge=1)
    n_heads: int = Field(4, ge=1)
    n_kv_heads: int | None = Field(None, ge=1)
    d_ff: int = Field(1024, ge=1)
    dropout: float = Field(0.1, ge=0.0, lt=1.0)
    token_dropout: float = Field(0.0, ge=0.0, lt=1.0)
    norm: Literal["layer", "rms"] = "layer"
    eps: float = Field(1e-5, gt=0.0)
    activation: Literal["relu", "gelu", "gelu_tanh", "silu", "swiglu"] = "gelu"
    positions: Literal["learned", "sinusoidal", "rotary", "none", "alibi"] = "learned"
    rotary_base: float = Field(BASE, gt=0.0)
    bias: bool = True
    tied: bool = True

    @model_validator(mode="after")
    def _fits_together(self) -> DecoderConfig:
        problems = []
        if self.d_model % self.n_heads:
            problems.append(f"d_model={self.d_model} is not a multiple of n_heads={self.n_heads}")
        if self.n_heads % self.kv_heads:
            problems.append(
                f"n_kv_heads={self.n_kv_heads} does not divide n_heads={self.n_heads}: as many "
                "heads must share each key"
            )
        if self.positions == "rotary" and self.d_head % 2:
            problems.append(
                f"positions 'rotary' turn pairs of numbers, and a head has {self.d_head}; choose "
                "an even d_model / n_heads"
            )
        if self.pad_id not in range(self.n_vocab):
            problems.append(f"pad_id={self.pad_id} is no token of n_vocab={self.n_vocab}")
        if problems:
            raise ValueError("; ".join(problems))
        return self

    @property
    def n_self_heads(self) -> int:
        """Heads that look from every token to those before it."""
        return self.n_layers * self.n_heads

    @property
    def longest(self) -> int | None:
        """Learned positions end with their table."""
        return self.max_len if self.positions == "learned" else None

    @property
    def kv_heads(self) -> int:
        """Heads that have keys and values of their own."""
        return self.n_kv_heads or self.n_heads

    @property
    def d_head(self) -> int:
        """Width of a head."""
        return self.d_model // self.n_heads

    def attention(self) -> MultiHeadAttention:
        """An attention as these settings want it."""
        return MultiHeadAttention(
            self.d_model,
            self.n_heads,
            positions=self.positions if self.positions in ("alibi", "rotary") else "none",
            bias=self.bias,
            n_kv_heads=self.n_kv_heads,
            rotary_base=self.rotary_base,
        )

    def residual(self) -> Residual:
        """A residual connection as these settings want it."""
        return Residual(
            self.d_model, dropout=self.dropout, norm_first=True, norm=self.norm, eps=self.eps
        )

    def embedding(self) -> InputEmbedding:
        """Tokens and their positions as these settings want them."""
        positions = make_positions(self.positions, self.d_model, join="add", max_len=self.max_len)
        tokens = nn.Embedding(self.n_vocab, self.d_model)
        return InputEmbedding(
            tokens,
            positions,
            dropout=self.dropout,
            token_dropout=self.token_dropout,
            scaled=False,
        )


@dataclass(frozen=True, slots=True)
class State:
    """What was read so far: each layer's keys and values of it."""

    layers: tuple[KeyValues, ...]

    @property
    def length(self) -> int:
        """Tokens read so far."""
        return self.layers[0].k.shape[-2]

    def select(self, rows: Tensor) -> State:
        """Rows of the batch by index, in that order."""
        return State(tuple(layer.select(rows) for layer in self.layers))


class DecoderLayer(nn.Module):
    """Masked self-attention, then feed-forward."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.self_attention = config.attention()
        self.feed_forward = FeedForward(
            config.d_model, config.d_ff, bias=config.bias, activation=config.activation
        )
        self.around_self = config.residual()
        self.around_feed_forward = config.residual()

    def forward(self, x: Tensor, past: KeyValues) -> tuple[Tensor, KeyValues]:
        """x (B, T, D) after the ``past`` -> (B, T, D) and the past with x in it."""
        first = past.k.shape[-2]
        y = self.around_self.enter(x)
        new = self.self_attention.project(y)
        present = past.extended(new) if first else new
        added = self.self_attention.look(y, present, causal=True, first=first)
        x = self.around_self.leave(x, added)
        added = self.feed_forward(self.around_feed_forward.enter(x))
        return self.around_feed_forward.leave(x, added), present


class LanguageModel(Switching):
    """A token after the other: what comes next, given all before it.

    A text begins at position 0 and may end with padding, which nobody before it can see.
    """

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = config.embedding()
        self.layers = nn.ModuleList(DecoderLayer(config) for _ in range(config.n_layers))
        self.norm = make_norm(config.norm, config.d_model, eps=config.eps)
        self.to_logits = (
            None if config.tied else nn.Linear(config.d_model, config.n_vocab, bias=False)
        )
        _initialise(self, config.n_layers)

    def forward(self, ids: Tensor, *, lazy: bool = False) -> Tensor | LazyLogits:
        """ids (B, T) -> logits (B, T, V): at each position those of the next token."""
        states = self.states(ids)
        return LazyLogits(states, *self.output()) if lazy else self.logits(states)

    def states(self, ids: Tensor) -> Tensor:
        """As ``forward``, up to the last layer -> (B, T, D)."""
        return self._after(ids, self.start(ids.shape[0]))[0]

    def output(self) -> Output:
        """The last layer, for who can do more with it than multiply."""
        layer = self.embedding.tokens if self.to_logits is None else self.to_logits
        return Output(layer.weight, None)

    def logits(self, states: Tensor) -> Tensor:
        """(…, D) -> (…, V)"""
        return F.linear(states, *self.output())

    def start(self, n_rows: int) -> State:
        """Nothing is read yet, in so many texts."""
        config, like = self.config, self.embedding.tokens.weight
        nothing = like.new_empty(n_rows, config.kv_heads, 0, config.d_head)
        return State((KeyValues(nothing, nothing),) * config.n_layers)

    def extend(self, ids: Tensor, state: State) -> tuple[Tensor, State]:
        """ids (B, T), T ≥ 1, after ``state`` -> logits (B, V) of the next, and the new state."""
        x, state = self._after(ids, state)
        return self.logits(x[:, -1]), state

    def _after(self, ids: Tensor, state: State) -> tuple[Tensor, State]:
        x = self.embedding(ids, state.length)
        present = []
        for layer, past in zip(self.layers, state.layers, strict=True):
            x, now = layer(x, past)
            present.append(now)
        return self.norm(x), State(tuple(present))


def _initialise(model: LanguageModel, n_layers: int) -> None:
    """Biases stay 0 and norms 1; each layer adds to the stream twice."""
    added = STD / math.sqrt(2 * n_layers)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(("to_out.weight", "outer.weight")):
                parameter.normal_(std=added)
            elif parameter.dim() == 2:
                parameter.normal_(std=STD)
