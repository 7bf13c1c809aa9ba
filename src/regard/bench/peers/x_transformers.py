"""The encoder and decoder of the package x-transformers, with torch's fused attention."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from regard.models.transformer import TransformerConfig
from regard.text.specials import PAD_ID


class XTransformers(nn.Module):
    """Pre-norm and no dropout around its sub-layers, as the package has it: a little less work."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        from x_transformers import Decoder, Encoder

        self.encoder = _wrapped(config, Encoder(**_layers(config)))
        self.decoder = _wrapped(config, Decoder(**_layers(config), cross_attend=True))
        self.encoder.token_emb = self.decoder.token_emb

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Source (B, S), target (B, T) -> logits (B, T, V)."""
        mask = source != PAD_ID
        memory = self.encoder(source, mask=mask, return_embeddings=True)
        return self.decoder(target, context=memory, context_mask=mask)


def _layers(config: TransformerConfig) -> dict[str, Any]:
    return {
        "dim": config.d_model,
        "depth": config.n_layers,
        "heads": config.n_heads,
        "attn_dim_head": config.d_model // config.n_heads,
        "attn_flash": True,
        "ff_mult": config.d_ff / config.d_model,
        "ff_dropout": config.dropout,
    }


def _wrapped(config: TransformerConfig, layers: nn.Module) -> Any:
    from x_transformers import TransformerWrapper

    return TransformerWrapper(
        num_tokens=config.n_target_vocab,
        max_seq_len=config.max_len,
        attn_layers=layers,
        emb_dropout=config.dropout,
        scaled_sinu_pos_emb=True,
        tie_embedding=True,
    )
