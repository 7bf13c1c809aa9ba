"""torch.nn.Transformer, wired as its documentation suggests, with a tied output like ours."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from regard.functional.positions import sinusoid
from regard.models.transformer import TransformerConfig


class TorchTransformer(nn.Module):
    """Same shape as ours: post-norm, one matrix for embeddings and output, sinusoids."""

    table: Tensor

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.tokens = nn.Embedding(config.n_target_vocab, config.d_model)
        nn.init.normal_(self.tokens.weight, std=config.d_model**-0.5)
        self.dropout = nn.Dropout(config.dropout)
        self.inner = nn.Transformer(
            config.d_model,
            config.n_heads,
            config.n_layers,
            config.n_layers,
            config.d_ff,
            config.dropout,
            batch_first=True,
        )
        self.register_buffer("table", sinusoid(torch.arange(config.max_len), config.d_model))

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Source (B, S), target (B, T) -> logits (B, T, V)."""
        hidden = source == self.config.pad_id
        n = target.shape[1]
        future = torch.ones(n, n, dtype=torch.bool, device=target.device).triu(1)  # True = hidden
        x = self.inner(
            self._embed(source),
            self._embed(target),
            tgt_mask=future,
            src_key_padding_mask=hidden,
            memory_key_padding_mask=hidden,
            tgt_is_causal=True,
        )
        return x @ self.tokens.weight.T

    def _embed(self, ids: Tensor) -> Tensor:
        """ids (B, T) -> (B, T, D)."""
        scaled = self.tokens(ids) * math.sqrt(self.config.d_model)
        return self.dropout(scaled + self.table[: ids.shape[1]])
