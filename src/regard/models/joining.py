"""Joining the weights of a decoder of Transformer layers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Protocol, cast

import torch
from torch import Tensor, nn

from regard.functional.positions import sinusoid
from regard.layers.attention import MultiHeadAttention
from regard.layers.embeddings import InputEmbedding
from regard.layers.feed_forward import FeedForward
from regard.layers.positions import LearnedPositions, SinusoidalPositions
from regard.layers.residual import Residual
from regard.models.joined import Dense, Joined, JoinedLayer, Norm


class LayerParts(Protocol):
    """What a layer of the decoder consists of."""

    self_attention: MultiHeadAttention
    cross_attention: MultiHeadAttention
    feed_forward: FeedForward
    around_self: Residual
    around_cross: Residual
    around_feed_forward: Residual


class DecoderParts(Protocol):
    """What a decoder consists of."""

    embedding: InputEmbedding
    layers: nn.ModuleList
    norm: nn.Module


def joined(decoder: DecoderParts, dtype: torch.dtype) -> Joined:
    """A decoder's weights joined; a copy."""
    layers = list(cast("Iterable[LayerParts]", decoder.layers))
    first = layers[0]
    attention = first.self_attention
    norm_first = first.around_self.norm_first
    entries = [
        (layer.around_self, layer.around_cross, layer.around_feed_forward) for layer in layers
    ]
    norms: list[nn.Module] = [around.norm for around in chain(*entries)]
    if norm_first:
        norms = [*norms[1:], decoder.norm]  # what comes after a sub-layer enters the next
    after = [Norm.of(norm, dtype) for norm in norms]
    d_head = attention.to_q.out_features // attention.n_heads
    return Joined(
        tokens=decoder.embedding.tokens.weight.detach().to(dtype, copy=True),
        embedding_scale=decoder.embedding.scale,
        first_norm=Norm.of(first.around_self.norm, dtype) if norm_first else None,
        layers=tuple(
            _layer(layer, after[3 * i : 3 * i + 3], dtype) for i, layer in enumerate(layers)
        ),
        to_source=Dense.of(list(chain(*map(_kv, layers))), dtype),
        n_heads=attention.n_heads,
        scale=1.0 if attention.score.name == "dot" else d_head**-0.5,
        norm_first=norm_first,
    )


def _kv(layer: LayerParts) -> tuple[nn.Linear, nn.Linear]:
    return layer.cross_attention.to_k, layer.cross_attention.to_v


def _layer(layer: LayerParts, after: Sequence[Norm], dtype: torch.dtype) -> JoinedLayer:
    own, across, forward = layer.self_attention, layer.cross_attention, layer.feed_forward
    return JoinedLayer(
        to_qkv=Dense.of((own.to_q, own.to_k, own.to_v), dtype),
        from_self=Dense.of((own.to_out,), dtype),
        after_self=after[0],
        to_q=Dense.of((across.to_q,), dtype),
        from_source=Dense.of((across.to_out,), dtype),
        after_source=after[1],
        inner=Dense.of((forward.inner,), dtype),
        outer=Dense.of((forward.outer,), dtype),
        after_feed_forward=after[2],
    )


def place_codes(decoder: DecoderParts, n: int) -> Tensor:
    """(n, D): what is added to a token at each of n places; a learned table has no more."""
    positions, weight = decoder.embedding.positions, decoder.embedding.tokens.weight
    if isinstance(positions, LearnedPositions):
        return positions.table.detach()[:n]
    codes = weight.new_zeros(n, weight.shape[1])
    if isinstance(positions, SinusoidalPositions):
        codes.copy_(sinusoid(torch.arange(n, device=weight.device), weight.shape[1]))
    return codes


def further_codes(codes: Tensor, n: int) -> Tensor:
    """The same for more places: sinusoids go on, and nothing stays nothing."""
    if not codes.any():
        return codes.new_zeros(n, codes.shape[1])
    return sinusoid(torch.arange(n, device=codes.device), codes.shape[1]).to(codes.dtype)
