"""A Transformer's decoder as decoding wants it: weights joined, in one number format.

Queries, keys and values of a self-attention are one product, and so are the keys and values that
all layers see of the source. What is normalised after a sub-layer is known beforehand: its own
output (post-norm), or the stream that enters the next sub-layer (pre-norm).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn


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
class Joined:
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

    def update(self, other: Joined) -> None:
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
