"""Small networks that read a sequence of symbols and label each of them.

None of them sees ahead, so that the recurrent and the attentive ones are asked the same thing.
"""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn

from regard.functional.masks import causal
from regard.layers.embeddings import token_embedding
from regard.models.transformer import Encoder, TransformerConfig

Kind = Literal["RNN", "LSTM", "attention"]
KINDS: tuple[Kind, ...] = ("RNN", "LSTM", "attention")

LEARNING_RATES: dict[Kind, float] = {"RNN": 1e-2, "LSTM": 1e-2, "attention": 5e-3}
"""The best for each of 1e-3, 3e-3, 5e-3, 1e-2 and 2e-2, found on recall over long gaps."""


def tagger(
    kind: Kind, *, n_symbols: int, n_answers: int, d_model: int = 32, n_attentions: int = 1
) -> nn.Module:
    """ids (B, T) -> logits (B, T, n_answers); a Transformer has ``n_attentions`` layers."""
    if kind == "attention":
        return _Attentive(n_symbols, n_answers, d_model, n_attentions)
    return _Recurrent(kind, n_symbols, n_answers, d_model)


class _Recurrent(nn.Module):
    def __init__(self, kind: Kind, n_symbols: int, n_answers: int, d_model: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(n_symbols, d_model)
        self.inner: nn.RNNBase
        if kind == "RNN":
            self.inner = nn.RNN(d_model, d_model, batch_first=True)
        else:
            self.inner = nn.LSTM(d_model, d_model, batch_first=True)
            # It remembers more than it forgets, as one usually begins.
            nn.init.ones_(self.inner.all_weights[0][-1][d_model : 2 * d_model])
        self.answer = nn.Linear(d_model, n_answers)

    def forward(self, ids: Tensor) -> Tensor:
        return self.answer(self.inner(self.embedding(ids))[0])


class _Attentive(nn.Module):
    """A Transformer's encoder that only looks back."""

    def __init__(self, n_symbols: int, n_answers: int, d_model: int, n_layers: int) -> None:
        super().__init__()
        config = TransformerConfig(
            n_source_vocab=n_symbols,
            n_target_vocab=n_symbols,
            d_model=d_model,
            n_layers=n_layers,
            n_heads=2,
            d_ff=2 * d_model,
            dropout=0.0,
        )
        self.encoder = Encoder(config, token_embedding(n_symbols, d_model))
        self.answer = nn.Linear(d_model, n_answers)

    def forward(self, ids: Tensor) -> Tensor:
        return self.answer(self.encoder(ids, causal(ids.shape[1])))
