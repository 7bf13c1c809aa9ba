"""A language model as writing wants it: weights joined, laid out, in one number format.

Queries, keys and values are one product, and so are the two halves of a gated feed-forward.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.functional.positions import sinusoid
from regard.kernels.small_batch import Then
from regard.layers.attention import MultiHeadAttention
from regard.layers.embeddings import InputEmbedding
from regard.layers.feed_forward import ACTIVATIONS, GATED, FeedForward
from regard.layers.prepacked import Prepacked
from regard.layers.residual import Residual
from regard.models.base import Output
from regard.models.joined import Dense
from regard.models.joining import place_codes


class LayerParts(Protocol):
    """What a layer of a language model consists of."""

    self_attention: MultiHeadAttention
    feed_forward: FeedForward
    around_self: Residual
    around_feed_forward: Residual


class TextParts(Protocol):
    """What a language model consists of, and does."""

    config: Any
    embedding: InputEmbedding
    layers: nn.ModuleList
    norm: nn.Module

    def output(self) -> Output:
        """Its last layer."""
        ...

    def start(self, n_rows: int) -> Any:
        """As ``LanguageModel.start``."""
        ...

    def extend(self, ids: Tensor, state: Any) -> tuple[Tensor, Any]:
        """As ``LanguageModel.extend``."""
        ...


class TextNorm(NamedTuple):
    """A LayerNorm, or an RMSNorm where there is no bias."""

    weight: Tensor
    bias: Tensor | None
    eps: float

    @classmethod
    def of(cls, norm: nn.Module, dtype: torch.dtype) -> TextNorm:
        """Of torch's."""
        assert isinstance(norm, nn.LayerNorm | nn.RMSNorm)
        assert norm.eps is not None
        bias = norm.bias if isinstance(norm, nn.LayerNorm) else None
        return cls(
            norm.weight.detach().to(dtype),
            None if bias is None else bias.detach().to(dtype),
            norm.eps,
        )

    def __call__(self, x: Tensor) -> Tensor:
        """(…, D) -> (…, D)"""
        if self.bias is None:
            return F.rms_norm(x, x.shape[-1:], self.weight, self.eps)
        return F.layer_norm(x, x.shape[-1:], *self)


class TextLayer(NamedTuple):
    """One layer."""

    before_self: TextNorm
    to_qkv: Prepacked
    """((H + 2·G)·Dh, D)"""
    from_self: Prepacked
    before_forward: TextNorm
    inner: Prepacked
    """(F, D), or (2·F, D): first what goes through the activation, then what it is multiplied by"""
    outer: Prepacked


@dataclass(frozen=True, slots=True)
class JoinedText:
    """All that a step needs to know of a language model."""

    tokens: Tensor
    """(V, D): what tokens are read as."""
    layers: tuple[TextLayer, ...]
    norm: TextNorm
    output: Prepacked
    """(V, D)"""
    n_heads: int
    n_kv_heads: int
    d_head: int
    activation: Then

    @property
    def scale(self) -> float:
        """Of the scores."""
        return self.d_head**-0.5

    def activated(self, y: Tensor) -> Tensor:
        """What ``inner`` gave (R, F or 2·F) -> what ``outer`` takes (R, F)."""
        act = ACTIVATIONS[self.activation]
        if self.activation not in GATED:
            return act(y)
        first, beside = y.chunk(2, dim=-1)
        return act(first) * beside


def joined_text(model: TextParts, dtype: torch.dtype) -> JoinedText:
    """A model's weights joined; what needs no change is no copy."""
    config = model.config
    layers = cast("Iterable[LayerParts]", model.layers)
    return JoinedText(
        tokens=model.embedding.tokens.weight.detach().to(dtype),
        layers=tuple(_layer(layer, dtype) for layer in layers),
        norm=TextNorm.of(model.norm, dtype),
        output=Prepacked.of(model.output().weight.detach().to(dtype), None),
        n_heads=config.n_heads,
        n_kv_heads=config.kv_heads,
        d_head=config.d_head,
        activation=config.activation,
    )


def _layer(layer: LayerParts, dtype: torch.dtype) -> TextLayer:
    own, forward = layer.self_attention, layer.feed_forward
    inner = [forward.inner] if forward.beside is None else [forward.inner, forward.beside]
    return TextLayer(
        before_self=TextNorm.of(layer.around_self.norm, dtype),
        to_qkv=_packed((own.to_q, own.to_k, own.to_v), dtype),
        from_self=_packed((own.to_out,), dtype),
        before_forward=TextNorm.of(layer.around_feed_forward.norm, dtype),
        inner=_packed(inner, dtype),
        outer=_packed((forward.outer,), dtype),
    )


def _packed(linears: Sequence[nn.Linear], dtype: torch.dtype) -> Prepacked:
    return Prepacked.of(*Dense.of(linears, dtype))


class PlaceTables(NamedTuple):
    """What tokens are told of their places, for so many of them."""

    codes: Tensor | None
    """(L, D), added to a token; a learned table may have fewer places."""
    turns: Tensor | None
    """(L, Dh / 2) complex: what pairs of queries and keys are multiplied by."""

    @classmethod
    def of(cls, model: TextParts, n: int, dtype: torch.dtype) -> PlaceTables:
        """For n places."""
        config, device = model.config, model.embedding.tokens.weight.device
        if config.positions == "rotary":
            waves = sinusoid(torch.arange(n, device=device), config.d_head, config.rotary_base)
            sin, cos = waves.unflatten(-1, (-1, 2)).unbind(-1)
            return cls(None, torch.complex(cos, sin))
        if config.positions == "none":
            return cls(None, None)
        return cls(place_codes(model, n).to(dtype), None)

    def n_known(self, n: int) -> int:
        """How many of n places there are codes for: learned ones end with their table."""
        return n if self.codes is None else min(n, len(self.codes))
