"""The encoder alone (Devlin et al. 2019): a text or a pair to vectors, and a head on them.

With a ``cell`` LSTMs or GRUs read the text both ways in place of self-attention; with a head that
pools by attention it is the classifier that was usual before BERT (Yang et al. 2016).

BERT by default: learned positions, segments, a norm on the embedding, GELU, post-norm, and its
start: matrices and tables from a normal cut at two deviations, biases at zero. BERT's deviation is
0.02 at its width of 768; narrower models need more for their sums to be as large.
"""

from __future__ import annotations

import math
from typing import Literal

from pydantic import Field, model_validator
from torch import Tensor, nn

from regard.functional import masks
from regard.layers.attention import MultiHeadAttention
from regard.layers.dropout import Dropout
from regard.layers.embeddings import SegmentedEmbedding
from regard.layers.feed_forward import ACTIVATIONS, FeedForward
from regard.layers.norms import make_norm
from regard.layers.positions import LearnedPositions, make_positions
from regard.layers.recurrence import Cell, Recurrence
from regard.layers.residual import Residual
from regard.models.base import LazyLogits, ModelConfig
from regard.models.encoder_heads import (
    POOLINGS,
    MaskedHead,
    NoHead,
    SpansHead,
    mean_of_real,
)

START, START_WIDTH = 0.02, 768
"""Deviation of BERT's fresh weights, and the width it was chosen for."""


class EncoderConfig(ModelConfig):
    """What makes one encoder differ from another."""

    family: Literal["encoder"] = "encoder"
    n_vocab: int = Field(ge=1)
    d_model: int = Field(256, ge=1)
    n_layers: int = Field(4, ge=1)
    n_heads: int = Field(4, ge=1)
    d_ff: int = Field(1024, ge=1)
    dropout: float = Field(0.1, ge=0.0, lt=1.0)
    token_dropout: float = Field(0.0, ge=0.0, lt=1.0)
    norm_first: bool = False
    norm: Literal["layer", "rms"] = "layer"
    eps: float = Field(1e-5, gt=0.0)
    activation: Literal["relu", "gelu", "gelu_tanh", "silu", "swiglu"] = "gelu"
    positions: Literal["learned", "sinusoidal", "rotary", "none"] = "learned"
    n_segments: int = Field(2, ge=0)
    embedding_norm: bool = True
    bias: bool = True
    head: Literal["none", "classify", "masked", "spans"] = "none"
    n_labels: int | None = Field(None, ge=1)
    pooling: Literal["cls", "mean", "attention"] = "cls"
    cell: Cell | None = None

    @model_validator(mode="after")
    def _fits_together(self) -> EncoderConfig:
        problems = self._of_attention() if self.cell is None else self._of_recurrence()
        if self.head == "classify" and self.n_labels is None:
            problems.append("head 'classify' needs n_labels")
        if self.head != "classify" and self.n_labels is not None:
            problems.append(
                f"head {self.head!r} has no labels: leave out n_labels={self.n_labels}, or choose "
                "head 'classify'"
            )
        if not 0 <= self.pad_id < self.n_vocab:
            problems.append(f"pad_id={self.pad_id} is none of the n_vocab={self.n_vocab} tokens")
        if problems:
            raise ValueError("; ".join(problems))
        return self

    def _of_attention(self) -> list[str]:
        problems = []
        if self.d_model % self.n_heads:
            problems.append(f"d_model={self.d_model} is not a multiple of n_heads={self.n_heads}")
        if self.positions == "rotary" and self.d_model // self.n_heads % 2:
            problems.append(
                f"positions 'rotary' turn pairs of numbers, and a head has "
                f"{self.d_model // self.n_heads}; choose an even d_model / n_heads"
            )
        return problems

    def _of_recurrence(self) -> list[str]:
        problems = []
        if self.positions == "rotary":
            problems.append("positions 'rotary' turn queries and keys, and a cell has none")
        if self.d_model % 2:
            problems.append(
                f"cell {self.cell!r} reads both ways, half of d_model={self.d_model} each; choose "
                "an even d_model"
            )
        return problems

    @property
    def idle(self) -> tuple[str, ...]:
        """As ``ModelConfig.idle``."""
        return () if self.cell is None else ("n_heads", "d_ff", "bias", "norm_first")

    @property
    def longest(self) -> int | None:
        """Learned positions end with their table."""
        return self.max_len if self.positions == "learned" else None

    @property
    def n_self_heads(self) -> int:
        """Heads that look from every token to every token."""
        return self.n_layers * self.n_heads if self.cell is None else 0

    def attention(self) -> MultiHeadAttention:
        """An attention as these settings want it."""
        return MultiHeadAttention(
            self.d_model,
            self.n_heads,
            positions="rotary" if self.positions == "rotary" else "none",
            bias=self.bias,
            max_len=self.max_len,
        )

    def feed_forward(self) -> FeedForward:
        """A feed-forward network as these settings want it."""
        return FeedForward(self.d_model, self.d_ff, bias=self.bias, activation=self.activation)

    def residual(self) -> Residual:
        """A residual connection as these settings want it."""
        return Residual(
            self.d_model,
            dropout=self.dropout,
            norm_first=self.norm_first,
            norm=self.norm,
            eps=self.eps,
        )

    def stream_norm(self) -> nn.Module:
        """A norm of the stream as these settings want it."""
        return make_norm(self.norm, self.d_model, eps=self.eps)

    def embedding(self) -> SegmentedEmbedding:
        """Tokens, positions and segments as these settings want them."""
        return SegmentedEmbedding(
            nn.Embedding(self.n_vocab, self.d_model),
            make_positions(self.positions, self.d_model, join="add", max_len=self.max_len),
            n_segments=self.n_segments,
            norm=self.stream_norm() if self.embedding_norm else None,
            dropout=self.dropout,
            token_dropout=self.token_dropout,
        )

    def make_layers(self) -> list[nn.Module]:
        """What reads, one after the other."""
        if self.cell is None:
            return [Layer(self) for _ in range(self.n_layers)]
        return [RecurrentLayer(self, self.cell, first=i == 0) for i in range(self.n_layers)]

    def make_head(self, tokens: nn.Embedding) -> nn.Module:
        """What turns states into what is asked for."""
        if self.n_labels is not None:
            return POOLINGS[self.pooling](self.d_model, self.n_labels, dropout=self.dropout)
        if self.head == "masked":
            activation = ACTIVATIONS[self.activation]
            return MaskedHead(tokens, activation=activation, norm=self.stream_norm())
        return SpansHead(self.d_model) if self.head == "spans" else NoHead()


class Layer(nn.Module):
    """Self-attention, then feed-forward."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.self_attention = config.attention()
        self.feed_forward = config.feed_forward()
        self.around_self = config.residual()
        self.around_feed_forward = config.residual()

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """x (B, S, D), mask (B, 1, 1, S) -> (B, S, D)."""
        x = self.around_self.leave(x, self.self_attention(self.around_self.enter(x), mask=mask))
        y = self.feed_forward(self.around_feed_forward.enter(x))
        return self.around_feed_forward.leave(x, y)


class RecurrentLayer(nn.Module):
    """A recurrence that reads both ways; each way makes half of a state."""

    def __init__(self, config: EncoderConfig, cell: Cell, *, first: bool) -> None:
        super().__init__()
        self.dropout = Dropout(0.0 if first else config.dropout)  # the embedding has its own
        half = config.d_model // 2
        self.recurrence = Recurrence(cell, config.d_model, half, bidirectional=True)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """x (B, S, D), mask (B, 1, 1, S) -> (B, S, D)."""
        return self.recurrence(self.dropout(x), mask[:, 0, 0])[0]


class Encoder(nn.Module):
    """Ids to vectors to what the head gives. Padding is seen by nobody."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = config.embedding()
        self.layers = nn.ModuleList(config.make_layers())
        self.norm = config.stream_norm() if config.norm_first else nn.Identity()
        self.head = config.make_head(self.embedding.tokens)
        deviation = start_deviation(config.d_model)
        for module in self.modules():
            _begin(module, deviation)

    def inputs(self, ids: Tensor, segments: Tensor) -> tuple[Tensor, ...]:
        """What ``forward`` takes: no segments, where the model tells no texts apart."""
        return (ids, segments) if self.config.n_segments > 1 else (ids,)

    def states(self, ids: Tensor, segments: Tensor | None = None) -> Tensor:
        """ids (B, S), segments (B, S), all 0 where they are not given -> (B, S, D)."""
        mask = masks.padding(ids, pad=self.config.pad_id)
        x = self.embedding(ids, segments)
        for layer in self.layers:
            x = layer(x, mask)
        return self.norm(x)

    def pooled(self, ids: Tensor, segments: Tensor | None = None) -> Tensor:
        """The mean of each text's tokens, padding left out -> (B, D)."""
        return mean_of_real(self.states(ids, segments), ids != self.config.pad_id)

    def forward(
        self, ids: Tensor, segments: Tensor | None = None, *, places: Tensor | None = None
    ) -> Tensor | LazyLogits:
        """What the head gives.

        ``classify`` (B, n_labels) · ``masked`` (B, S, V) · ``spans`` (B, S, 2): start, end ·
        ``none`` the states. With ``places`` (N,), indices into all B · S positions, ``masked``
        gives the logits (N, V) there, as ``LazyLogits``.
        """
        states = self.states(ids, segments)
        if places is None:
            return self.head(states, ids != self.config.pad_id)
        assert isinstance(self.head, MaskedHead), "only guesses of words are asked for by place"
        return LazyLogits(self.head.transformed(states.flatten(0, 1)[places]), *self.head.output())


def start_deviation(d_model: int) -> float:
    """Of fresh weights: a sum of d_model products has the size that it has at BERT's width.

    >>> start_deviation(768), start_deviation(192)
    (0.02, 0.04)
    """
    return START * math.sqrt(START_WIDTH / d_model)


def _begin(module: nn.Module, deviation: float) -> None:
    """BERT's start; norms begin as torch has them, with ones and zeros."""
    if isinstance(module, nn.Linear | nn.Embedding):
        _draw(module.weight, deviation)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)
    if isinstance(module, LearnedPositions):
        _draw(module.table, deviation)


def _draw(weight: Tensor, deviation: float) -> None:
    nn.init.trunc_normal_(weight, std=deviation, a=-2 * deviation, b=2 * deviation)
