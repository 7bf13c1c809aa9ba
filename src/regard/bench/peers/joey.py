"""The Transformer of JoeyNMT."""

from __future__ import annotations

from torch import Tensor, nn

from regard.models.transformer import TransformerConfig
from regard.text.specials import PAD_ID


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
        logits, *_ = self.decoder(
            self.tokens(target),
            encoder_output=memory,
            encoder_hidden=None,
            src_mask=seen,
            unroll_steps=None,
            hidden=None,
            trg_mask=(target != PAD_ID).unsqueeze(1),
        )
        return logits
