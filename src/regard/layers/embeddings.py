"""Ids to vectors that know their token and their place."""

from __future__ import annotations

import math

from torch import Tensor, nn

from regard.core.errors import ShapeError
from regard.layers.dropout import Dropout, TokenDropout
from regard.layers.positions import Positions, SinusoidalPositions


class InputEmbedding(nn.Module):
    """√D · embedding, joined with positions, brought back to width D, then dropout.

    Not ``scaled``, the embedding is taken as it is.
    """

    def __init__(
        self,
        tokens: nn.Embedding,
        positions: Positions,
        *,
        dropout: float,
        token_dropout: float = 0.0,
        scaled: bool = True,
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
        self.token_dropout = TokenDropout(token_dropout)

    def forward(self, ids: Tensor, first: int | Tensor = 0) -> Tensor:
        """ids (B, T), beginning at position ``first`` or at these places -> (B, T, D)."""
        x = self.token_dropout(self.tokens(ids)) * self.scale
        return self.dropout(self.to_model(self.positions(x, first)))


class SegmentedEmbedding(nn.Module):
    """Token, position and segment added up, perhaps normalised, then dropout (Devlin et al. 2019).

    Tokens start small here and sinusoids do not: they are divided by √D, which with a norm behind
    is what multiplying the tokens by √D would be. Learned positions are taken as they are.
    """

    def __init__(
        self,
        tokens: nn.Embedding,
        positions: Positions,
        *,
        n_segments: int,
        norm: nn.Module | None,
        dropout: float,
        token_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        d_model = tokens.embedding_dim
        self.tokens = tokens
        self.positions = positions
        self.segments = nn.Embedding(n_segments, d_model) if n_segments else None
        self.norm = nn.Identity() if norm is None else norm
        self.dropout = Dropout(dropout)
        self.token_dropout = TokenDropout(token_dropout)
        self.scale = math.sqrt(d_model) if isinstance(positions, SinusoidalPositions) else 1.0

    def forward(self, ids: Tensor, segments: Tensor | None = None) -> Tensor:
        """ids (B, S), segments (B, S), all 0 where they are not given -> (B, S, D)."""
        x = self.positions(self.token_dropout(self.tokens(ids)) * self.scale) / self.scale
        return self.dropout(self.norm(self._told(x, segments)))

    def _told(self, x: Tensor, segments: Tensor | None) -> Tensor:
        if self.segments is not None:
            return x + (self.segments.weight[0] if segments is None else self.segments(segments))
        if segments is None:
            return x
        raise ShapeError(
            "segments were given to a model that knows none; leave them out, or build it with "
            "n_segments: 2"
        )


def token_embedding(n_vocab: int, d_model: int) -> nn.Embedding:
    """An embedding fit to be tied with the output: rows of about unit length."""
    embedding = nn.Embedding(n_vocab, d_model)
    nn.init.normal_(embedding.weight, std=d_model**-0.5)
    return embedding
