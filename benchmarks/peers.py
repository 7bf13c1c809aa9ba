"""torch.nn.Transformer, wired as its documentation suggests, with a tied output like ours."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from regard.functional.positions import sinusoid
from regard.models.transformer import TransformerConfig


class TorchTransformer(nn.Module):
    """Same shape as ours: post-norm, one matrix for embeddings and output, sinusoids."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.tokens = nn.Embedding(config.n_target_vocab, config.d_model)
        nn.init.normal_(self.tokens.weight, std=config.d_model**-0.5)
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

    def embed(self, ids: Tensor) -> Tensor:
        """ids (B, T) -> (B, T, D)."""
        return self.tokens(ids) * math.sqrt(self.config.d_model) + self.table[: ids.shape[1]]

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """As ours: logits (B, T, V)."""
        hidden = source == self.config.pad_id
        future = self.future(target.shape[1], target.device)
        x = self.inner(
            self.embed(source),
            self.embed(target),
            tgt_mask=future,
            src_key_padding_mask=hidden,
            memory_key_padding_mask=hidden,
            tgt_is_causal=True,
        )
        return x @ self.tokens.weight.T

    def greedy(self, source: Tensor, n_steps: int, begin: int) -> Tensor:
        """Token by token; torch's module has no cache, so each step reads the whole prefix."""
        hidden = source == self.config.pad_id
        memory = self.inner.encoder(self.embed(source), src_key_padding_mask=hidden)
        ids = torch.full((source.shape[0], 1), begin, device=source.device)
        for _ in range(n_steps):
            x = self.inner.decoder(
                self.embed(ids),
                memory,
                tgt_mask=self.future(ids.shape[1], ids.device),
                memory_key_padding_mask=hidden,
                tgt_is_causal=True,
            )
            best = (x[:, -1] @ self.tokens.weight.T).argmax(dim=-1, keepdim=True)
            ids = torch.cat((ids, best), dim=1)
        return ids

    @staticmethod
    def future(n: int, device: torch.device) -> Tensor:
        """(T, T), True = hidden, as torch has it."""
        return torch.ones(n, n, dtype=torch.bool, device=device).triu(1)
