"""What an encoder's vectors are turned into: labels, words, spans.

A head is given the states (B, S, D) and which of their tokens are real (B, S).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.layers.dropout import Dropout
from regard.layers.memory_attention import MemoryAttention
from regard.models.base import Output


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

    def __init__(
        self, tokens: nn.Embedding, *, activation: Callable[[Tensor], Tensor], norm: nn.Module
    ) -> None:
        super().__init__()
        self.tokens = tokens
        self.dense = nn.Linear(tokens.embedding_dim, tokens.embedding_dim)
        self.activation = activation
        self.norm = norm
        self.bias = nn.Parameter(torch.zeros(tokens.num_embeddings))

    def transformed(self, states: Tensor) -> Tensor:
        """(…, D) -> (…, D), which the last layer reads."""
        return self.norm(self.activation(self.dense(states)))

    def output(self) -> Output:
        """The last layer."""
        return Output(self.tokens.weight, self.bias)

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
