"""An encoder as decoding wants it: weights joined, and no more calls than there are kernels.

Reading takes a few milliseconds however few the words are, if every layer is asked politely. A
short translation on a GPU takes not much longer.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from itertools import chain
from typing import NamedTuple, Protocol, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.functional import stepping
from regard.layers.attention import MultiHeadAttention
from regard.layers.embeddings import InputEmbedding
from regard.layers.feed_forward import FeedForward
from regard.layers.residual import Residual
from regard.models.joined import Dense, Norm


class LayerParts(Protocol):
    """What a layer of the encoder consists of."""

    self_attention: MultiHeadAttention
    feed_forward: FeedForward
    around_self: Residual
    around_feed_forward: Residual


class EncoderParts(Protocol):
    """What an encoder consists of."""

    embedding: InputEmbedding
    layers: nn.ModuleList
    norm: nn.Module


class _Layer(NamedTuple):
    to_qkv: Dense
    from_self: Dense
    after_self: Norm
    inner: Dense
    outer: Dense
    after_feed_forward: Norm


class JoinedEncoder:
    """An encoder's weights, copied once."""

    def __init__(self, encoder: EncoderParts, dtype: torch.dtype) -> None:
        layers = list(cast("Iterable[LayerParts]", encoder.layers))
        attention = layers[0].self_attention
        self.n_heads = attention.n_heads
        self.scale = 1.0 if attention.score.name == "dot" else None  # None is torch's own: 1/√d
        self.norm_first = layers[0].around_self.norm_first
        self.embedding = copy.deepcopy(encoder.embedding).to(dtype).requires_grad_(False)
        norms = list(
            chain(*((one.around_self.norm, one.around_feed_forward.norm) for one in layers))
        )
        first, after = (norms[0], [*norms[1:], encoder.norm]) if self.norm_first else (None, norms)
        self.first_norm = None if first is None else Norm.of(first, dtype)
        self.layers = [
            _Layer(
                Dense.of((own.to_q, own.to_k, own.to_v), dtype),
                Dense.of((own.to_out,), dtype),
                Norm.of(after[2 * i], dtype),
                Dense.of((layer.feed_forward.inner,), dtype),
                Dense.of((layer.feed_forward.outer,), dtype),
                Norm.of(after[2 * i + 1], dtype),
            )
            for i, layer in enumerate(layers)
            for own in (layer.self_attention,)
        ]

    def update(self, encoder: EncoderParts) -> None:
        """The weights that the encoder has now, where these lie."""
        other = JoinedEncoder(encoder, self.embedding.tokens.weight.dtype)
        self.embedding.load_state_dict(other.embedding.state_dict())
        for mine, theirs in zip(self._tensors(), other._tensors(), strict=True):
            mine.copy_(theirs)

    def __call__(self, source: Tensor, mask: Tensor) -> Tensor:
        """ids (B, S), mask (B, 1, 1, S) -> (B, S, D)."""
        B, S = source.shape
        x = self.embedding(source).flatten(0, 1)  # (B·S, D)
        y = x if self.first_norm is None else F.layer_norm(x, x.shape[-1:], *self.first_norm)
        for layer in self.layers:
            x, y = self._layer(layer, x, y, mask, (B, S))
        return y.view(B, S, -1)

    def _layer(
        self, layer: _Layer, x: Tensor, y: Tensor, mask: Tensor, size: tuple[int, int]
    ) -> tuple[Tensor, Tensor]:
        """The stream x (N, D), and y that enters the layer -> the same for the next layer."""
        q, k, v = F.linear(y, *layer.to_qkv).view(*size, 3, self.n_heads, -1).permute(2, 0, 3, 1, 4)
        found = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=self.scale)
        found = found.transpose(1, 2).reshape(len(y), -1)
        added = F.linear(found, *layer.from_self)
        x, y = stepping.add_norm(x, added, *layer.after_self, keep=self.norm_first)
        added = F.linear(F.linear(y, *layer.inner).relu_(), *layer.outer)
        return stepping.add_norm(x, added, *layer.after_feed_forward, keep=self.norm_first)

    def _tensors(self) -> list[Tensor]:
        parts = [self.first_norm, *chain(*self.layers)]
        return [
            one for part in parts if part is not None for one in part if isinstance(one, Tensor)
        ]
