"""Embeddings of tokens that begin as somebody's word vectors."""

from __future__ import annotations

import torch
from torch import Tensor, nn

TOKENS = "tokens"
"""What every model calls the embedding that its ids are looked up in."""


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
