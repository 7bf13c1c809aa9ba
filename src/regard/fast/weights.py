"""Weights as decoding wants them: layers that read the same joined, in one number format.

Queries, keys and values of a self-attention are one product, and so are the two halves of a gated
feed-forward, and the keys and values that all layers of a decoder see of the source. What is
normalised after a sub-layer is known beforehand: its own output (post-norm), or the stream that
enters the next sub-layer (pre-norm).

On a CPU weights can be *packed*: laid out once as oneDNN's kernels want them, by the operators that
``torch.compile`` uses too. Else that is done at every call, which for few rows takes as long as the
product itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from threading import Lock
from typing import Any, NamedTuple, Self, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.functional.positions import sinusoid
from regard.layers.blocks import TransformerBlock
from regard.layers.embeddings import InputEmbedding
from regard.layers.feed_forward import FeedForward
from regard.layers.positions import LearnedPositions, SinusoidalPositions
from regard.models.transformer import Transformer, TransformerDecoder

EXPECTED_ROWS = 64
"""The packed layout for so many rows serves all numbers of them."""


class Dense(NamedTuple):
    """A linear layer, W x + b."""

    weight: Tensor
    """(out, in); opaque where it is packed."""
    bias: Tensor | None

    @classmethod
    def of(cls, linears: Sequence[nn.Linear], dtype: torch.dtype) -> Dense:
        """Several that read the same, as one whose outputs lie side by side; a copy."""
        weight = torch.cat([linear.weight.detach().to(dtype) for linear in linears])
        biases = [linear.bias.detach().to(dtype) for linear in linears if linear.bias is not None]
        return cls(weight, torch.cat(biases) if biases else None)

    def packed(self) -> Dense:
        """The same with its weight packed; as it is where that cannot be done."""
        if not can_pack(self.weight):
            return self
        weight = self.weight.contiguous()
        return Dense(torch.ops.mkldnn._reorder_linear_weight(weight, EXPECTED_ROWS), self.bias)

    def scaled(self, factors: Tensor) -> Dense:
        """The same with each of its outputs multiplied by a factor (out,)."""
        weight = (self.weight * factors.unsqueeze(1)).to(self.weight.dtype)
        return Dense(weight, None if self.bias is None else (self.bias * factors).to(weight.dtype))

    def __call__(self, x: Tensor, *, then: str = "none") -> Tensor:
        """x (R, in) -> (R, out); ``then`` may be "relu"."""
        if self.weight.is_mkldnn:
            return torch.ops.mkldnn._linear_pointwise.default(x, *self, then, [], "")
        y = F.linear(x, *self)
        return y.relu_() if then == "relu" else y

    def plus(self, x: Tensor, added: Tensor) -> Tensor:
        """The same, and ``added`` (R, out) to it."""
        if self.weight.is_mkldnn:
            return torch.ops.mkldnn._linear_pointwise.binary(x, added, *self, "add")
        return F.linear(x, *self) + added


def can_pack(weight: Tensor) -> bool:
    """Whether oneDNN has kernels for it here."""
    if weight.device.type != "cpu" or not torch.backends.mkldnn.is_available():
        return False
    if weight.dtype == torch.bfloat16:
        return torch.ops.mkldnn._is_mkldnn_bf16_supported()
    return weight.dtype == torch.float32


class PackedLinear(nn.Module):
    """In place of an ``nn.Linear`` that will not learn any more."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        bias = None if linear.bias is None else linear.bias.detach()
        self.dense = Dense(linear.weight.detach(), bias).packed()

    def forward(self, x: Tensor) -> Tensor:
        """(…, in) -> (…, out)"""
        return self.dense(x.flatten(0, -2)).unflatten(0, x.shape[:-1])


def pack_linears(module: nn.Module) -> nn.Module:
    """The same module with all its linear layers packed, in place."""
    for name, child in module.named_children():
        if isinstance(child, nn.Linear):
            setattr(module, name, PackedLinear(child))
        else:
            pack_linears(child)
    return module


class Norm(NamedTuple):
    """A LayerNorm, or an RMSNorm where there is no bias."""

    weight: Tensor
    bias: Tensor | Any
    """None in an RMSNorm. ``| Any``, here and below: who computes with it knows what there is."""
    eps: float

    @classmethod
    def of(cls, norm: nn.Module, dtype: torch.dtype) -> Norm:
        """A copy of torch's."""
        assert isinstance(norm, nn.LayerNorm | nn.RMSNorm)
        assert norm.eps is not None
        bias = norm.bias.detach().to(dtype, copy=True) if isinstance(norm, nn.LayerNorm) else None
        return cls(norm.weight.detach().to(dtype, copy=True), bias, norm.eps)

    def __call__(self, x: Tensor) -> Tensor:
        """(…, D) -> (…, D)"""
        if self.bias is None:
            return F.rms_norm(x, x.shape[-1:], self.weight, self.eps)
        return F.layer_norm(x, x.shape[-1:], *self)


class JoinedLayer(NamedTuple):
    """One layer of an encoder or a decoder; those that see no source have None for its parts."""

    to_qkv: Dense
    """((H + 2·G)·Dh, D), for G heads of keys and values"""
    from_self: Dense
    after_self: Norm
    to_q: Dense | Any
    from_source: Dense | Any
    after_source: Norm | Any
    inner: Dense
    """(F, D), or (2·F, D): first what goes through the activation, then what it is multiplied by"""
    outer: Dense
    after_feed_forward: Norm

    @classmethod
    def of(cls, block: TransformerBlock, norms: Iterator[Norm], dtype: torch.dtype) -> JoinedLayer:
        """A block, and of the norms the next ones: those after its sub-layers."""
        own, across, forward = block.self_attention, block.cross_attention, block.feed_forward
        assert isinstance(forward, FeedForward), "experts have no fast form"
        inner = [forward.inner] if forward.beside is None else [forward.inner, forward.beside]
        return cls(
            to_qkv=Dense.of((own.to_q, own.to_k, own.to_v), dtype),
            from_self=Dense.of((own.to_out,), dtype),
            after_self=next(norms),
            to_q=None if across is None else Dense.of((across.to_q,), dtype),
            from_source=None if across is None else Dense.of((across.to_out,), dtype),
            after_source=None if across is None else next(norms),
            inner=Dense.of(inner, dtype),
            outer=Dense.of((forward.outer,), dtype),
            after_feed_forward=next(norms),
        )

    def packed(self) -> JoinedLayer:
        """The same with all its linear layers packed."""
        parts: list[Any] = [one.packed() if isinstance(one, Dense) else one for one in self]
        return JoinedLayer(*parts)


class JoinedStack:
    """A copy of the weights of a stack of layers, joined and perhaps packed."""

    def __init__(
        self, layers: nn.ModuleList, norm: nn.Module, dtype: torch.dtype, *, packed: bool = False
    ) -> None:
        blocks = list(cast("Iterable[TransformerBlock]", layers))
        attention = blocks[0].self_attention
        self.n_heads = attention.n_heads
        self.d_head = attention.to_q.out_features // attention.n_heads
        self.scale = 1.0 if attention.score.name == "dot" else self.d_head**-0.5
        """Of the scores."""
        self.norm_first = blocks[0].around_self.norm_first
        norms = [
            around.norm
            for one in blocks
            for around in (one.around_self, one.around_cross, one.around_feed_forward)
            if around is not None
        ]
        self.first_norm: Norm | Any = Norm.of(norms[0], dtype) if self.norm_first else None
        """Of what enters the first layer; None with post-norm."""
        after = [*norms[1:], norm] if self.norm_first else norms  # a sub-layer leads to the next
        following = iter([Norm.of(one, dtype) for one in after])
        joined = (JoinedLayer.of(block, following, dtype) for block in blocks)
        self.layers = tuple(layer.packed() for layer in joined) if packed else tuple(joined)

    def update(self, other: Self) -> None:
        """The other's weights, where these lie."""
        mine, theirs = (_tensors(tuple(vars(one).values())) for one in (self, other))
        for old, new in zip(mine, theirs, strict=True):
            old.copy_(new)


def _tensors(part: object) -> Iterator[Tensor]:
    if isinstance(part, Tensor):
        yield part
    elif isinstance(part, nn.Module):
        yield from part.state_dict().values()
    elif isinstance(part, tuple):
        for one in part:
            yield from _tensors(one)


class JoinedDecoder(JoinedStack):
    """All that a step of a Transformer's decoder computes with."""

    def __init__(self, decoder: TransformerDecoder, dtype: torch.dtype) -> None:
        super().__init__(decoder.layers, decoder.norm, dtype)
        self.tokens = decoder.embedding.tokens.weight.detach().to(dtype, copy=True)
        """(V, D): what tokens are read as, and what states are compared with."""
        self.embedding_scale: float = decoder.embedding.scale
        across: list[Any] = [layer.cross_attention for layer in decoder.layers]
        kv = [linear for attention in across for linear in (attention.to_k, attention.to_v)]
        self.to_source = Dense.of(kv, dtype)
        """Keys and values of all layers: (n_layers · 2 · D, D)."""


def position_codes(embedding: InputEmbedding, n: int) -> Tensor:
    """(n, D): what is added to a token at each of n positions; a learned table has no more."""
    positions, weight = embedding.positions, embedding.tokens.weight
    if isinstance(positions, LearnedPositions):
        return positions.table.detach()[:n]
    codes = weight.new_zeros(n, weight.shape[1])
    if isinstance(positions, SinusoidalPositions):
        codes.copy_(sinusoid(torch.arange(n, device=weight.device), weight.shape[1]))
    return codes


class FastModel:
    """A model's weights laid out anew, speaking the protocol of ``regard.decoding``.

    Whatever cannot be written in place is done by the model itself.
    """

    def __init__(self, model: Any, dtype: torch.dtype) -> None:
        self.model = model
        self.encode, self.start = model.encode, model.start
        self.step, self.prefill = model.step, model.prefill
        self.dtype = dtype
        self.device: torch.device = next(model.parameters()).device
        self.longest: int | None = model.config.longest
        self.lock = Lock()

    def __call__(self, source: Tensor, target: Tensor) -> Tensor:
        """All positions at once are the model's own work."""
        return self.model(source, target)


class FastTransformer(FastModel):
    """A Transformer, for searches that write in place (``decoding.protocol.StaticGenerator``)."""

    def __init__(self, model: Transformer, dtype: torch.dtype) -> None:
        super().__init__(model, dtype)
        self.pad_id: int = model.config.pad_id
        self.n_vocab: int = model.config.n_target_vocab
        codes = position_codes(model.decoder.embedding, model.config.max_len)
        self.codes = codes.to(dtype, copy=True)
        self.searches: dict[object, Any] = {}
        """Searches with their caches, kept for the next time."""

    def codes_for(self, n: int) -> Tensor:
        """What is added to tokens at n positions at least; a learned table has no more."""
        if n <= len(self.codes) or self.longest is not None:
            return self.codes
        return position_codes(self.model.decoder.embedding, n).to(self.dtype)
