"""Ids to vectors that know their token and their place."""

from __future__ import annotations

import math

from torch import Tensor, nn

from regard.layers.dropout import Dropout
from regard.layers.positions import Positions


class InputEmbedding(nn.Module):
    """√D · embedding, joined with positions, brought back to width D, then dropout.

    Not ``scaled``, the embedding is taken as it is.
    """

    def __init__(
        self, tokens: nn.Embedding, positions: Positions, *, dropout: float, scaled: bool = True
    ) -> None:
        super().__init__()
        d_model = tokens.embedding_dim
        self.tokens = tokens
        self.positions = positions
        self.scale = math.sqrt(d_model) if scaled else 1.0
        self.to_model = (
            nn.Identity()
            if positions.d_out == d_model
            else nn.Linear(positions.d_out, d_model, bias=False)
        )
        self.dropout = Dropout(dropout)

    def forward(self, ids: Tensor, first: int | Tensor = 0) -> Tensor:
        """ids (B, T), beginning at position ``first`` or at these places -> (B, T, D)."""
        return self.dropout(self.to_model(self.positions(self.tokens(ids) * self.scale, first)))


def token_embedding(n_vocab: int, d_model: int) -> nn.Embedding:
    """An embedding fit to be tied with the output: rows of about unit length."""
    embedding = nn.Embedding(n_vocab, d_model)
    nn.init.normal_(embedding.weight, std=d_model**-0.5)
    return embedding
