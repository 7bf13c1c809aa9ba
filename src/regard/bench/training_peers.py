"""Other people's Transformers, each in our words: ``forward(source, target) -> logits``.

Source ids are (B, S), target ids (B, T), logits (B, T, V). All have one matrix for both embeddings
and the output, and as many layers, heads and widths as asked for. Where a library has choices,
those that its documentation calls fastest are taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard.functional.positions import sinusoid
from regard.models.settings import TransformerConfig
from regard.text.specials import BEGIN_ID, END_ID, PAD_ID


class TorchTransformer(nn.Module):
    """Same shape as ours: post-norm, one matrix for embeddings and output, sinusoids."""

    table: Tensor

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.tokens = nn.Embedding(config.n_target_vocab, config.d_model)
        nn.init.normal_(self.tokens.weight, std=config.d_model**-0.5)
        self.dropout = nn.Dropout(config.dropout)
        n, sizes = config.n_layers, (config.d_ff, config.dropout)
        self.inner = nn.Transformer(config.d_model, config.n_heads, n, n, *sizes, batch_first=True)
        self.register_buffer("table", sinusoid(torch.arange(config.max_len), config.d_model))

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Source (B, S), target (B, T) -> logits (B, T, V)."""
        hidden = source == self.config.pad_id
        n = target.shape[1]
        future = torch.ones(n, n, dtype=torch.bool, device=target.device).triu(1)  # True = hidden
        masks = {"src_key_padding_mask": hidden, "memory_key_padding_mask": hidden}
        embedded = (self._embed(source), self._embed(target))
        x = self.inner(*embedded, tgt_mask=future, tgt_is_causal=True, **masks)
        return x @ self.tokens.weight.T

    def _embed(self, ids: Tensor) -> Tensor:
        """ids (B, T) -> (B, T, D)."""
        scaled = self.tokens(ids) * math.sqrt(self.config.d_model)
        return self.dropout(scaled + self.table[: ids.shape[1]])


def transformers_model(name: str, **sizes: Any) -> Any:
    """A model of ``transformers`` with random weights, on torch's fused attention."""
    import transformers

    transformers.logging.set_verbosity_error()
    make = getattr(transformers, name)
    return make(make.config_class(**sizes, attn_implementation="sdpa"))


def marian_model(config: TransformerConfig) -> Any:
    """A MarianMTModel of our shape, with our special ids."""
    both = {"layers": config.n_layers, "attention_heads": config.n_heads, "ffn_dim": config.d_ff}
    return transformers_model(
        "MarianMTModel",
        **{f"{side}_{name}": n for side in ("encoder", "decoder") for name, n in both.items()},
        vocab_size=config.n_target_vocab,
        d_model=config.d_model,
        dropout=config.dropout,
        attention_dropout=0.0,
        activation_dropout=0.0,
        activation_function="relu",
        scale_embedding=True,
        max_position_embeddings=config.max_len,
        pad_token_id=PAD_ID,
        bos_token_id=BEGIN_ID,
        eos_token_id=END_ID,
        decoder_start_token_id=BEGIN_ID,
        forced_eos_token_id=None,
    )


class Marian(nn.Module):
    """For training: no cache is kept."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.inner = marian_model(config)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Source (B, S), target (B, T) -> logits (B, T, V)."""
        read = {"input_ids": source, "attention_mask": source != PAD_ID}
        return self.inner(**read, decoder_input_ids=target, use_cache=False).logits


class XTransformers(nn.Module):
    """Pre-norm and no dropout around its sub-layers, as the package has it: a little less work."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        from x_transformers import Decoder, Encoder, TransformerWrapper

        layers = {
            "dim": config.d_model,
            "depth": config.n_layers,
            "heads": config.n_heads,
            "attn_dim_head": config.d_model // config.n_heads,
            "attn_flash": True,
            "ff_mult": config.d_ff / config.d_model,
            "ff_dropout": config.dropout,
        }
        around = {
            "num_tokens": config.n_target_vocab,
            "max_seq_len": config.max_len,
            "emb_dropout": config.dropout,
            "scaled_sinu_pos_emb": True,
            "tie_embedding": True,
        }
        self.encoder = TransformerWrapper(attn_layers=Encoder(**layers), **around)
        decoder = Decoder(**layers, cross_attend=True)
        self.decoder = TransformerWrapper(attn_layers=decoder, **around)
        self.encoder.token_emb = self.decoder.token_emb

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Source (B, S), target (B, T) -> logits (B, T, V)."""
        mask = source != PAD_ID
        memory = self.encoder(source, mask=mask, return_embeddings=True)
        return self.decoder(target, context=memory, context_mask=mask)


class Joey(nn.Module):
    """Its encoder, decoder and embeddings, tied, post-norm."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        from joeynmt.decoders import TransformerDecoder
        from joeynmt.embeddings import Embeddings
        from joeynmt.encoders import TransformerEncoder

        layers = {
            "num_layers": config.n_layers,
            "num_heads": config.n_heads,
            "hidden_size": config.d_model,
            "ff_size": config.d_ff,
            "dropout": config.dropout,
            "emb_dropout": config.dropout,
            "layer_norm": "post",
        }
        self.tokens = Embeddings(
            config.d_model, scale=True, vocab_size=config.n_target_vocab, padding_idx=PAD_ID
        )
        self.encoder = TransformerEncoder(**layers)
        self.decoder = TransformerDecoder(**layers, vocab_size=config.n_target_vocab)
        nn.init.normal_(self.tokens.lut.weight, std=config.d_model**-0.5)
        self.decoder.output_layer.weight = self.tokens.lut.weight

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Source (B, S), target (B, T) -> logits (B, T, V)."""
        seen = (source != PAD_ID).unsqueeze(1)  # (B, 1, S)
        memory, _ = self.encoder(self.tokens(source), None, seen)
        masks = {"src_mask": seen, "trg_mask": (target != PAD_ID).unsqueeze(1)}
        unused = dict.fromkeys(("encoder_hidden", "unroll_steps", "hidden"))
        return self.decoder(self.tokens(target), encoder_output=memory, **masks, **unused)[0]


class PlainGRU(nn.Module):
    """Encoder GRU, its last state, decoder GRU."""

    def __init__(self, vocab: int, width: int) -> None:
        super().__init__()
        self.source = nn.Embedding(vocab, width)
        self.target = nn.Embedding(vocab, width)
        self.encoder = nn.GRU(width, width, batch_first=True)
        self.decoder = nn.GRU(width, width, batch_first=True)
        self.to_logits = nn.Linear(width, vocab)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Source (B, S), target (B, T) -> logits (B, T, V); padding is read like any word."""
        _, last = self.encoder(self.source(source))
        out, _ = self.decoder(self.target(target), last)
        return self.to_logits(out)


def plain_gru(vocab: int, n_parameters: int) -> PlainGRU:
    """As wide, in steps of 8, as brings it nearest to so many parameters."""

    def miss(width: int) -> int:
        """Three matrices of the vocabulary, a bias, and two GRUs of three gates."""
        size = 3 * vocab * width + vocab + 2 * 3 * (2 * width * width + 2 * width)
        return abs(size - n_parameters)

    return PlainGRU(vocab, min(range(8, 4096, 8), key=miss))


@dataclass(frozen=True, slots=True)
class Peer:
    """A package that trains a model of our shape."""

    name: str
    package: str
    make: Callable[[Any], nn.Module]
    """Of a shape: a translator's configuration, or a ``TextShape``."""
    compiles: bool = False
    """Whether it is also tried with torch.compile, on a GPU."""

    def ways(self, device: torch.device) -> tuple[str, ...]:
        """As it comes and, where that is usual, compiled."""
        return ("", "compiled") if self.compiles and device.type == "cuda" else ("",)


PEERS = (
    Peer("torch.nn.Transformer", "torch", TorchTransformer),
    Peer("transformers", "transformers", Marian, compiles=True),
    Peer("x-transformers", "x_transformers", XTransformers),
    Peer("joeynmt", "joeynmt", Joey),
)
