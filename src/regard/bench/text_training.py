"""Models of one text at the sizes that others are known by, for ``regard bench train --shape``.

``gpt2-small`` learns the next token of full windows, ``bert-base`` the masked 15 % of full rows.
All contenders learn from the same random ids; the unit is a token that is read. Beside the models
of ``transformers`` stands a plain stack in the manner of nanoGPT, which is what a careful reader of
torch's documentation would write: fused attention, one product for queries, keys and values,
everything compiled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.bench.shape_training import N_BATCHES, ShapeBench
from regard.bench.training_peers import Peer, transformers_model
from regard.data.batch import Batch
from regard.models.decoder import LanguageModel
from regard.models.encoder import Encoder
from regard.models.settings import DecoderConfig, EncoderConfig
from regard.tasks.language import NextTokenLoss
from regard.tasks.masked import MaskedLoss
from regard.training.flops import encoder_flops, text_flops

MASKED_SHARE = 0.15
ON_CPU = {"context": 128, "n_rows": 2}
"""Sizes of a batch where there is no GPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextShape:
    """The sizes of a model and of its batches."""

    n_vocab: int
    d_model: int = 768
    n_layers: int = 12
    n_heads: int = 12
    dropout: float
    context: int
    """Tokens of a row."""
    n_rows: int

    @property
    def n_units(self) -> int:
        """Tokens that are read in a round."""
        return N_BATCHES * self.n_rows * self.context

    def resized(self, vocab: int | None, batch_tokens: int | None) -> TextShape:
        """With another vocabulary, or another batch."""
        context = min(self.context, batch_tokens or self.context)
        n_rows = batch_tokens // context if batch_tokens else self.n_rows
        return replace(self, n_vocab=vocab or self.n_vocab, context=context, n_rows=n_rows)

    @property
    def sizes(self) -> dict[str, Any]:
        """As our configurations call them."""
        names = ("n_vocab", "d_model", "n_layers", "n_heads", "dropout")
        own = {name: getattr(self, name) for name in names}
        return {**own, "d_ff": 4 * self.d_model, "max_len": self.context}


class PlainGPT(nn.Module):
    """GPT-2 in the manner of nanoGPT: pre-norm, learned positions, the output is the embedding."""

    def __init__(self, shape: TextShape) -> None:
        super().__init__()
        self.tokens = nn.Embedding(shape.n_vocab, shape.d_model)
        self.positions = nn.Embedding(shape.context, shape.d_model)
        self.dropout = nn.Dropout(shape.dropout)
        self.blocks = nn.ModuleList(PlainBlock(shape) for _ in range(shape.n_layers))
        self.norm = nn.LayerNorm(shape.d_model)
        for weight in (self.tokens.weight, self.positions.weight):
            nn.init.normal_(weight, std=0.02)

    def forward(self, ids: Tensor) -> Tensor:
        """(B, T) -> logits (B, T, V)"""
        places = torch.arange(ids.shape[1], device=ids.device)
        x = self.dropout(self.tokens(ids) + self.positions(places))
        for block in self.blocks:
            x = block(x)
        return F.linear(self.norm(x), self.tokens.weight)


class PlainBlock(nn.Module):
    """Causal self-attention, then a feed-forward network with GELU."""

    def __init__(self, shape: TextShape) -> None:
        super().__init__()
        d = shape.d_model
        self.n_heads, self.p = shape.n_heads, shape.dropout
        self.first, self.second = nn.LayerNorm(d), nn.LayerNorm(d)
        self.to_qkv, self.to_out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.inner, self.outer = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)
        self.dropout = nn.Dropout(shape.dropout)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, D) -> (B, T, D)"""
        B, T, D = x.shape
        qkv = self.to_qkv(self.first(x)).view(B, T, 3, self.n_heads, -1)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)  # each (B, H, T, Dh)
        p = self.p if self.training else 0.0
        found = F.scaled_dot_product_attention(q, k, v, dropout_p=p, is_causal=True)
        x = x + self.dropout(self.to_out(found.transpose(1, 2).reshape(B, T, D)))
        return x + self.dropout(self.outer(F.gelu(self.inner(self.second(x)))))


def hf_gpt2(shape: TextShape) -> Any:
    """GPT2LMHeadModel of a shape."""
    rates = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), shape.dropout)
    return transformers_model(
        "GPT2LMHeadModel",
        vocab_size=shape.n_vocab,
        n_positions=shape.context,
        n_embd=shape.d_model,
        n_layer=shape.n_layers,
        n_head=shape.n_heads,
        use_cache=False,
        **rates,
    )


def hf_bert(shape: TextShape) -> Any:
    """BertForMaskedLM of a shape."""
    return transformers_model(
        "BertForMaskedLM",
        vocab_size=shape.n_vocab,
        hidden_size=shape.d_model,
        num_hidden_layers=shape.n_layers,
        num_attention_heads=shape.n_heads,
        intermediate_size=4 * shape.d_model,
        max_position_embeddings=shape.context,
        hidden_dropout_prob=shape.dropout,
        attention_probs_dropout_prob=0.0,
    )


def window_batch(shape: TextShape, rng: torch.Generator) -> Batch:
    """Full windows (B, T + 1): every token but the first is to be predicted."""
    size = (shape.n_rows, shape.context + 1)
    ids = torch.randint(0, shape.n_vocab, size, generator=rng)
    return Batch({"target": ids}, tuple(range(shape.n_rows)), shape.n_rows * shape.context)


def masked_batch(shape: TextShape, rng: torch.Generator) -> Batch:
    """Full rows (B, S); a share of each batch is to be guessed, elsewhere ``labels`` are -100."""
    size = (shape.n_rows, shape.context)
    ids = torch.randint(1, shape.n_vocab, size, generator=rng)
    n_guessed = max(1, round(MASKED_SHARE * ids.numel()))
    positions = torch.randperm(ids.numel(), generator=rng)[:n_guessed].sort().values
    guessed = torch.zeros(ids.numel(), dtype=torch.bool).index_fill(0, positions, True).view(size)
    tensors = {
        "ids": ids.masked_fill(guessed, 1),  # 1 stands for a mask
        "segments": torch.zeros_like(ids),
        "positions": positions,
        "targets": ids[guessed],
        "labels": ids.masked_fill(~guessed, -100),
    }
    return Batch(tensors, tuple(range(shape.n_rows)), n_guessed)


def our_gpt(positions: Any, shape: TextShape) -> tuple[LanguageModel, float]:
    """A language model, and its FLOPs a token."""
    model = LanguageModel(DecoderConfig(**shape.sizes, positions=positions))
    return model, text_flops(model, shape.context).training(1, shape.context) / shape.context


def our_bert(positions: Any, shape: TextShape) -> tuple[Encoder, float]:
    """An encoder that guesses words, and its FLOPs a token."""
    model = Encoder(EncoderConfig(**shape.sizes, positions=positions, head="masked"))
    n_guessed = round(MASKED_SHARE * shape.context)
    return model, encoder_flops(model).training(1, shape.context, n_guessed) / shape.context


def with_positions(make: Any) -> Mapping[str, Any]:
    """Our model with each of two kinds of positions; peers have the first."""
    return {f"{kind} positions": partial(make, kind) for kind in ("learned", "rotary")}


TEXTS = {
    "gpt2-small": ShapeBench(  # the vocabulary is padded to a multiple of 64, as nanoGPT does
        unit="tokens",
        shape=TextShape(n_vocab=50304, dropout=0.0, context=1024, n_rows=32),
        on_cpu=ON_CPU,
        batch=window_batch,
        inputs=lambda batch: (batch.target_in, batch.target_out),
        ours=with_positions(our_gpt),
        objective=lambda settings, compiled: NextTokenLoss(settings, compiled=compiled),
        peers=(
            Peer("torch", "torch", PlainGPT, compiles=True),
            Peer("transformers", "transformers", hf_gpt2, compiles=True),
        ),
    ),
    "bert-base": ShapeBench(
        unit="tokens",
        shape=TextShape(n_vocab=30528, dropout=0.1, context=512, n_rows=64),
        on_cpu=ON_CPU,
        batch=masked_batch,
        inputs=lambda batch: (batch.ids, batch.labels),
        ours=with_positions(our_bert),
        objective=lambda settings, compiled: MaskedLoss(
            settings.label_smoothing, compiled=compiled
        ),
        peers=(Peer("transformers", "transformers", hf_bert, compiles=True),),
    ),
}
"""What can be asked for by name."""
