"""Ids to vectors that know their token and their position."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from typing_extensions import override

from regard.core.errors import ShapeError
from regard.layers.dropout import Dropout, TokenDropout
from regard.layers.positions import Positions

TOKENS = "tokens"
"""What every model calls the embedding that its ids are looked up in."""


class InputEmbedding(nn.Module):
    """Token, position and perhaps segment as one vector: (B, T) -> (B, T, D), then dropout.

    Tokens are multiplied by ``scale`` before positions join them, and all is divided by ``shrink``
    afterwards. What is wider than D after joining is projected to D. Segments are added, and the
    sum may be normalised (Devlin et al. 2019).
    """

    def __init__(
        self,
        tokens: nn.Embedding,
        positions: Positions,
        *,
        d_model: int | None = None,
        n_segments: int = 0,
        norm: nn.Module | None = None,
        dropout: float = 0.0,
        token_dropout: float = 0.0,
        scale: float = 1.0,
        shrink: float = 1.0,
    ) -> None:
        super().__init__()
        d_model = d_model or tokens.embedding_dim
        self.tokens = tokens
        self.positions = positions
        self.scale, self.shrink = scale, shrink
        self.to_model = (
            nn.Identity()
            if positions.d_out == d_model
            else nn.Linear(positions.d_out, d_model, bias=False)
        )
        self.segments = nn.Embedding(n_segments, d_model) if n_segments else None
        self.norm = nn.Identity() if norm is None else norm
        self.dropout = Dropout(dropout)
        self.token_dropout = TokenDropout(token_dropout)

    def forward(
        self, ids: Tensor, first: int | Tensor = 0, segments: Tensor | None = None
    ) -> Tensor:
        """ids (B, T), beginning at position ``first`` or at these positions -> (B, T, D).

        Segments (B, T) are all 0 where they are not given.
        """
        x = self.token_dropout(self.tokens(ids))
        x = self.positions(x if self.scale == 1 else x * self.scale, first)
        x = self.to_model(x if self.shrink == 1 else x / self.shrink)
        return self.dropout(self.norm(self._with_segments(x, segments)))

    def _with_segments(self, x: Tensor, segments: Tensor | None) -> Tensor:
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


class ScaledEmbedding(nn.Embedding):
    """Rows of about unit length, fit to be an output matrix, that are read √D times as long."""

    @override
    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input) * math.sqrt(self.embedding_dim)


def word_table(n_vocab: int, d_word: int, *, tied: bool) -> nn.Embedding:
    """Words that a recurrence reads: units of variance 1, whether or not they are written by it."""
    if not tied:
        return nn.Embedding(n_vocab, d_word)
    table = ScaledEmbedding(n_vocab, d_word)
    nn.init.normal_(table.weight, std=d_word**-0.5)
    return table


def readout(d_in: int, tokens: nn.Embedding, *, tied: bool) -> tuple[nn.Module, nn.Linear]:
    """From states (…, d_in) to what words are read off, and from that to logits (…, V).

    Tied, the last matrix is that of ``tokens``, and states of another width are first projected to
    the width of words; otherwise there is nothing between states and logits.
    """
    n_vocab, d_word = tokens.weight.shape
    if not tied:
        return nn.Identity(), nn.Linear(d_in, n_vocab)
    to_logits = nn.Linear(d_word, n_vocab)
    to_logits.weight = tokens.weight
    nn.init.zeros_(to_logits.bias)
    return nn.Identity() if d_in == d_word else nn.Linear(d_in, d_word, bias=False), to_logits


def token_tables(model: nn.Module) -> dict[str, nn.Embedding]:
    """Embeddings of tokens by name; one that is shared has the name of its first use."""
    return {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, nn.Embedding) and name.rpartition(".")[2] == TOKENS
    }


@torch.no_grad()
def begin_rows(table: nn.Embedding, rows: Tensor, vectors: Tensor) -> None:
    """Some rows (N,) of a table become vectors (N, D), all times one number.

    With it they are on the whole as long as the rows drawn in their place: models differ in how
    long their embeddings should be, and the rows that stay must not drown beside the new ones.
    Directions, and which is longer than which, are as they were. A vector of zeros says nothing of
    its word, and a norm would multiply its gradient by 1/sqrt(eps): its row stays as drawn.
    """
    known = vectors.any(dim=-1)
    rows, new = rows[known], vectors[known].to(table.weight)
    table.weight[rows] = new * (table.weight[rows].norm() / new.norm())
