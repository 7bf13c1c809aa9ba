"""Skip-gram (Mikolov et al. 2013): a vector for each word, and one for it as the company of others.

The product of a word's vector with a context's says how likely the two stand near each other. What
is wanted in the end are the vectors of words; those of contexts are the scaffold.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import Field
from torch import Tensor, nn

from regard.layers.settings import Count
from regard.models.settings import ModelConfig


class SkipGramConfig(ModelConfig):
    """Two tables of vectors, and what counts as company."""

    family: Literal["skip_gram"] = "skip_gram"
    n_vocab: Count
    d_model: Count = Field(64, description="Width of a word's vector.")
    context: Count = Field(
        4, description="Words to either side that are near at most; each word draws its own width."
    )
    n_negatives: Count = Field(5, description="Words that are drawn as not near, for one that is.")
    threshold: float = Field(
        1e-3,
        gt=0,
        allow_inf_nan=False,
        description="A word whose share of all words is f is read with a chance of √(threshold/f).",
    )

    def problems(self) -> Iterator[str]:
        """A padding that is not a word."""
        if not 0 <= self.pad_id < self.n_vocab:
            yield f"pad_id={self.pad_id} is not a token of n_vocab={self.n_vocab}"

    @property
    def idle(self) -> tuple[str, ...]:
        """Texts of any length are read."""
        return ("max_len",)


class SkipGram(nn.Module):
    """Vectors of words and of contexts; begins as word2vec does, with contexts of zeros."""

    def __init__(self, config: SkipGramConfig) -> None:
        super().__init__()
        self.config = config
        self.tokens = nn.Embedding(config.n_vocab, config.d_model)
        self.contexts = nn.Embedding(config.n_vocab, config.d_model)
        nn.init.uniform_(self.tokens.weight, -0.5 / config.d_model, 0.5 / config.d_model)
        nn.init.zeros_(self.contexts.weight)

    def forward(self, words: Tensor, contexts: Tensor) -> Tensor:
        """Products of words (N,) with contexts (N, K) -> (N, K)."""
        return (self.contexts(contexts) @ self.tokens(words).unsqueeze(-1)).squeeze(-1)
