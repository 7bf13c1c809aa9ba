"""The Marian model of the package transformers, with random weights."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from regard.models.transformer import TransformerConfig
from regard.text.specials import BEGIN_ID, END_ID, PAD_ID


def marian_model(config: TransformerConfig) -> Any:
    """A MarianMTModel of our shape, on torch's fused attention, with our special ids."""
    from transformers import MarianConfig, MarianMTModel, logging

    logging.set_verbosity_error()
    return MarianMTModel(
        MarianConfig(
            vocab_size=config.n_target_vocab,
            d_model=config.d_model,
            encoder_layers=config.n_layers,
            decoder_layers=config.n_layers,
            encoder_attention_heads=config.n_heads,
            decoder_attention_heads=config.n_heads,
            encoder_ffn_dim=config.d_ff,
            decoder_ffn_dim=config.d_ff,
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
            attn_implementation="sdpa",
        )
    )


class Marian(nn.Module):
    """For training: no cache is kept."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.inner = marian_model(config)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Source (B, S), target (B, T) -> logits (B, T, V)."""
        return self.inner(
            input_ids=source,
            attention_mask=source != PAD_ID,
            decoder_input_ids=target,
            use_cache=False,
        ).logits
