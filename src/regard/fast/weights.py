"""A Transformer's decoder as decoding wants it: weights joined, in one number format.

Queries, keys and values of a self-attention are one product, and so are the keys and values that
all layers see of the source. What is normalised after a sub-layer is known beforehand: its own
output (post-norm), or the stream that enters the next sub-layer (pre-norm).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from threading import Lock
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from regard.functional.positions import sinusoid
from regard.layers.blocks import DecoderBlock
from regard.layers.embeddings import InputEmbedding
from regard.layers.positions import LearnedPositions, SinusoidalPositions
from regard.models.transformer import Transformer, TransformerDecoder


class Dense(NamedTuple):
    """A linear layer."""

    weight: Tensor
    bias: Tensor | None

    @classmethod
    def of(cls, linears: Sequence[nn.Linear], dtype: torch.dtype) -> Dense:
        """Several that read the same, as one whose outputs lie side by side."""
        weight = torch.cat([linear.weight.detach().to(dtype) for linear in linears])
        biases = [linear.bias.detach().to(dtype) for linear in linears if linear.bias is not None]
        return cls(weight, torch.cat(biases) if biases else None)


class Norm(NamedTuple):
    """A LayerNorm."""

    weight: Tensor
    bias: Tensor
    eps: float

    @classmethod
    def of(cls, norm: nn.Module, dtype: torch.dtype) -> Norm:
        """Of torch's."""
        assert isinstance(norm, nn.LayerNorm)
        weight, bias = (part.detach().to(dtype, copy=True) for part in (norm.weight, norm.bias))
        return cls(weight, bias, norm.eps)


class JoinedLayer(NamedTuple):
    """One layer of the decoder."""

    to_qkv: Dense
    from_self: Dense
    after_self: Norm
    to_q: Dense
    from_source: Dense
    after_source: Norm
    inner: Dense
    outer: Dense
    after_feed_forward: Norm


@dataclass(frozen=True, slots=True)
class JoinedDecoder:
    """All that a step needs to know of a decoder."""

    tokens: Tensor
    """(V, D): what tokens are read as, and what states are compared with."""
    embedding_scale: float
    first_norm: Norm | None
    """Of what enters the first layer; none with post-norm."""
    layers: tuple[JoinedLayer, ...]
    to_source: Dense
    """Keys and values of all layers: (n_layers · 2 · D, D)."""
    n_heads: int
    scale: float
    """Of the scores."""
    norm_first: bool

    @property
    def d_head(self) -> int:
        """Width of a head."""
        return self.tokens.shape[1] // self.n_heads

    def update(self, other: JoinedDecoder) -> None:
        """The other's weights, where these lie."""
        for mine, theirs in zip(self._tensors(), other._tensors(), strict=True):
            mine.copy_(theirs)

    def _tensors(self) -> Iterator[Tensor]:
        yield from _tensors((self.tokens, self.first_norm, self.layers, self.to_source))


def _tensors(part: object) -> Iterator[Tensor]:
    if isinstance(part, Tensor):
        yield part
    elif isinstance(part, tuple):
        for one in part:
            yield from _tensors(one)


def joined(decoder: TransformerDecoder, dtype: torch.dtype) -> JoinedDecoder:
    """A decoder's weights joined; a copy."""
    layers = list(cast("Iterable[DecoderBlock]", decoder.layers))
    first = layers[0]
    attention = first.self_attention
    norm_first = first.around_self.norm_first
    norms: list[nn.Module] = []
    for layer in layers:
        assert layer.around_cross is not None, "a decoder that looks at a source"
        around = (layer.around_self, layer.around_cross, layer.around_feed_forward)
        norms += [one.norm for one in around]
    if norm_first:
        norms = [*norms[1:], decoder.norm]  # what comes after a sub-layer enters the next
    after = [Norm.of(norm, dtype) for norm in norms]
    d_head = attention.to_q.out_features // attention.n_heads
    return JoinedDecoder(
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


def _kv(layer: DecoderBlock) -> tuple[nn.Linear, nn.Linear]:
    assert layer.cross_attention is not None
    return layer.cross_attention.to_k, layer.cross_attention.to_v


def _layer(layer: DecoderBlock, after: Sequence[Norm], dtype: torch.dtype) -> JoinedLayer:
    own, across, forward = layer.self_attention, layer.cross_attention, layer.feed_forward
    assert across is not None
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


def position_codes(embedding: InputEmbedding, n: int) -> Tensor:
    """(n, D): what is added to a token at each of n positions; a learned table has no more."""
    positions, weight = embedding.positions, embedding.tokens.weight
    if isinstance(positions, LearnedPositions):
        return positions.table.detach()[:n]
    codes = weight.new_zeros(n, weight.shape[1])
    if isinstance(positions, SinusoidalPositions):
        codes.copy_(sinusoid(torch.arange(n, device=weight.device), weight.shape[1]))
    return codes


def further_codes(codes: Tensor, n: int) -> Tensor:
    """The same for more positions: sinusoids go on, and nothing stays nothing."""
    if not codes.any():
        return codes.new_zeros(n, codes.shape[1])
    return sinusoid(torch.arange(n, device=codes.device), codes.shape[1]).to(codes.dtype)


class FastTransformer:
    """A Transformer's weights laid out anew, speaking the protocol of ``regard.decoding``.

    Searches that cannot write in place are served by the model itself.
    """

    def __init__(self, model: Transformer, dtype: torch.dtype) -> None:
        self.model = model
        self.encode, self.start = model.encode, model.start
        self.step, self.prefill = model.step, model.prefill
        self.dtype = dtype
        self.device: torch.device = model.decoder.embedding.tokens.weight.device
        self.pad_id: int = model.config.pad_id
        self.longest: int | None = model.config.longest
        self.n_vocab: int = model.config.n_target_vocab
        self.codes = position_codes(model.decoder.embedding, model.config.max_len).to(
            dtype, copy=True
        )
        self.lock = Lock()
        self.searches: dict[object, Any] = {}
        """Searches with their caches, kept for the next time."""

    def __call__(self, source: Tensor, target: Tensor) -> Tensor:
        """All positions at once are the model's own work."""
        return self.model(source, target)

    def codes_for(self, n: int) -> Tensor:
        """What is added to tokens at n positions at least; a learned table has no more."""
        if n <= len(self.codes) or self.longest is not None:
            return self.codes
        return further_codes(self.codes, n)
