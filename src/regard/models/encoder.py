"""The encoder alone (Devlin et al. 2019): a text or a pair to vectors, and a head on them.

With a ``cell`` recurrences read the text both ways in place of self-attention; with a head that
pools by attention it is the classifier that was usual before BERT (Yang et al. 2016).

BERT by default: learned positions, segments, a norm on the embedding, GELU, post-norm, and its
start: matrices and tables from a normal cut at two deviations, biases at zero. BERT's deviation is
0.02 at its width of 768; narrower models need more for their sums to be as large.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.functional import masks
from regard.layers.attention import MemoryAttention
from regard.layers.blocks import EncoderBlock
from regard.layers.dropout import Dropout
from regard.layers.embeddings import InputEmbedding
from regard.layers.experts import ExpertLinear
from regard.layers.feed_forward import ACTIVATIONS
from regard.layers.positions import LearnedPositions
from regard.layers.recurrence import Recurrence
from regard.models.base import LazyLogits, Output, input_embedding, last_norm, stream_norm, tied
from regard.models.settings import Cell, EncoderConfig

START, START_WIDTH = 0.02, 768
"""Deviation of BERT's fresh weights, and the width it was chosen for."""


class RecurrentBlock(nn.Module):
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
        self.embedding = _embedding(config)
        self.layers = nn.ModuleList(_layers(config))
        self.norm = last_norm(config)
        self.head = _head(config, self.embedding.tokens)
        self._initialise(start_deviation(config.d_model))

    def _initialise(self, deviation: float) -> None:
        """BERT's start; norms begin as torch has them, with ones and zeros."""
        for module in self.modules():
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)
            if isinstance(module, nn.Linear | nn.Embedding | LearnedPositions | ExpertLinear):
                table = module.table if isinstance(module, LearnedPositions) else module.weight
                nn.init.trunc_normal_(table, std=deviation, a=-2 * deviation, b=2 * deviation)

    def inputs(self, ids: Tensor, segments: Tensor) -> tuple[Tensor, ...]:
        """What ``forward`` takes: no segments, where the model tells no texts apart."""
        return (ids, segments) if self.config.n_segments > 1 else (ids,)

    def states(self, ids: Tensor, segments: Tensor | None = None) -> Tensor:
        """ids (B, S), segments (B, S), all 0 where they are not given -> (B, S, D)."""
        mask = masks.padding(ids, pad=self.config.pad_id)
        x = self.embedding(ids, segments=segments)
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


def _embedding(config: EncoderConfig) -> InputEmbedding:
    """Tokens start small here and sinusoids do not: they are divided by √D.

    With a norm behind, that is what multiplying the tokens by √D would be. Learned positions are
    taken as they are.
    """
    scale = math.sqrt(config.d_tokens) if config.positions == "sinusoidal" else 1.0
    return input_embedding(
        config,
        nn.Embedding(config.n_vocab, config.d_tokens),
        scale=scale,
        shrink=scale,
        n_segments=config.n_segments,
        norm=stream_norm(config) if config.embedding_norm else None,
    )


def _layers(config: EncoderConfig) -> list[nn.Module]:
    n, cell = config.n_layers, config.cell
    if cell is None:
        return [EncoderBlock(config, layer=i, n_layers=n) for i in range(n)]
    return [RecurrentBlock(config, cell, first=i == 0) for i in range(n)]


def _head(config: EncoderConfig, tokens: nn.Embedding) -> nn.Module:
    if config.n_labels is not None:
        return POOLINGS[config.pooling](config.d_model, config.n_labels, dropout=config.dropout)
    if config.head == "masked":
        return MaskedHead(config, tokens)
    return SpansHead(config.d_model) if config.head == "spans" else NoHead()


def start_deviation(d_model: int) -> float:
    """Of fresh weights: a sum of d_model products has the size that it has at BERT's width.

    >>> start_deviation(768), start_deviation(192)
    (0.02, 0.04)
    """
    return START * math.sqrt(START_WIDTH / d_model)


# ------------------------------------------------------------------ heads
# Each is given the states (B, S, D) and which of their tokens are real (B, S).


def mean_of_real(states: Tensor, real: Tensor) -> Tensor:
    """states (B, S, D), real (B, S) -> (B, D); where no token is real, zeros."""
    kept = states.masked_fill(~real.unsqueeze(-1), 0.0)
    return kept.sum(dim=1) / real.sum(dim=1, keepdim=True).clamp(min=1)


class NoHead(nn.Module):
    """The states as they are."""

    def forward(self, states: Tensor, real: Tensor) -> Tensor:
        """(B, S, D) -> (B, S, D)"""
        return states


class FirstTokenHead(nn.Module):
    """One text or pair -> a score a label, from what its first token has gathered."""

    def __init__(self, d_model: int, n_labels: int, *, dropout: float) -> None:
        super().__init__()
        self.dense = nn.Linear(d_model, d_model)
        self.dropout = Dropout(dropout)
        self.to_labels = nn.Linear(d_model, n_labels)

    def forward(self, states: Tensor, real: Tensor) -> Tensor:
        """(B, S, D) -> (B, n_labels)"""
        return self.to_labels(self.dropout(torch.tanh(self.dense(states[:, 0]))))


class MeanHead(nn.Module):
    """One text or pair -> a score a label, from the mean of its tokens."""

    def __init__(self, d_model: int, n_labels: int, *, dropout: float) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)
        self.to_labels = nn.Linear(d_model, n_labels)

    def forward(self, states: Tensor, real: Tensor) -> Tensor:
        """(B, S, D) -> (B, n_labels)"""
        return self.to_labels(self.dropout(mean_of_real(states, real)))


class AttentionHead(nn.Module):
    """One text or pair -> a score a label, from the tokens that a learned query looks at."""

    def __init__(self, d_model: int, n_labels: int, *, dropout: float) -> None:
        super().__init__()
        self.query = nn.Parameter(torch.randn(d_model) * d_model**-0.5)
        self.pool_attention = MemoryAttention(d_model, d_model, score="additive")
        self.dropout = Dropout(dropout)
        self.to_labels = nn.Linear(d_model, n_labels)

    def forward(self, states: Tensor, real: Tensor) -> Tensor:
        """(B, S, D) -> (B, n_labels)"""
        memory = self.pool_attention.project(states)
        asked = self.query.expand(states.shape[0], 1, -1)  # (B, 1, D)
        found = self.pool_attention.look(asked, memory, mask=real[:, None, None])
        return self.to_labels(self.dropout(found.squeeze(1)))


POOLINGS = {"cls": FirstTokenHead, "mean": MeanHead, "attention": AttentionHead}
"""What a label is read from."""


class MaskedHead(nn.Module):
    """Every position -> the word that stands there; the token matrix is the output matrix.

    The loss needs few positions: ``head.output()`` on ``head.transformed(states[chosen])``.
    """

    def __init__(self, config: EncoderConfig, tokens: nn.Embedding) -> None:
        super().__init__()
        self.tokens = tokens
        self.dense = nn.Linear(config.d_model, config.d_model)
        self.activation = ACTIVATIONS[config.activation]
        self.norm = stream_norm(config)
        self.bias = nn.Parameter(torch.zeros(tokens.num_embeddings))

    def transformed(self, states: Tensor) -> Tensor:
        """(…, D) -> (…, D), which the last layer reads."""
        return self.norm(self.activation(self.dense(states)))

    def output(self) -> Output:
        """The last layer."""
        return Output(tied(self.tokens, self.dense.out_features), self.bias)

    def forward(self, states: Tensor, real: Tensor) -> Tensor:
        """(B, S, D) -> (B, S, V)"""
        return F.linear(self.transformed(states), *self.output())


class SpansHead(nn.Module):
    """Every position -> how well an answer starts there, and how well it ends there.

    Positions of the padding get scores as well: whoever chooses must leave them out.
    """

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.to_ends = nn.Linear(d_model, 2)

    def forward(self, states: Tensor, real: Tensor) -> Tensor:
        """(B, S, D) -> (B, S, 2): start, end."""
        return self.to_ends(states)
