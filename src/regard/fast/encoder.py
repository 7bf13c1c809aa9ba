"""An encoder as decoding wants it: weights joined, and no more calls than there are kernels.

Reading takes a few milliseconds however few the words are, if every layer makes its calls one
by one. A short translation on a GPU takes not much longer.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from itertools import chain
from typing import NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.fast.weights import Dense, Norm
from regard.functional.packing import packed_rows
from regard.functional.scores import Factors
from regard.kernels import sdpa, steps
from regard.kernels.call import Call
from regard.kernels.gpu import HAS_TRITON
from regard.layers.blocks import EncoderBlock
from regard.models.transformer import TransformerEncoder

Look = Callable[[Tensor], Tensor]


class JoinedEncoderLayer(NamedTuple):
    """One layer of the encoder."""

    to_qkv: Dense
    from_self: Dense
    after_self: Norm
    inner: Dense
    outer: Dense
    after_feed_forward: Norm


class JoinedEncoder:
    """An encoder's weights, copied once."""

    def __init__(self, encoder: TransformerEncoder, dtype: torch.dtype) -> None:
        layers = list(cast("Iterable[EncoderBlock]", encoder.layers))
        attention = layers[0].self_attention
        self.n_heads = attention.n_heads
        d_head = attention.to_q.out_features // attention.n_heads
        self.scale = 1.0 if attention.score.name == "dot" else d_head**-0.5
        self.norm_first = layers[0].around_self.norm_first
        self.embedding = copy.deepcopy(encoder.embedding).to(dtype).requires_grad_(False)
        norms = list(
            chain(*((one.around_self.norm, one.around_feed_forward.norm) for one in layers))
        )
        first, after = (norms[0], [*norms[1:], encoder.norm]) if self.norm_first else (None, norms)
        self.first_norm = None if first is None else Norm.of(first, dtype)
        self.layers = [
            JoinedEncoderLayer(
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

    def update(self, encoder: TransformerEncoder) -> None:
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
        look = self._look_at(mask)
        for layer in self.layers:
            x, y = self._layer(layer, x, y, look)
        return y.view(B, S, -1)

    def _look_at(self, mask: Tensor) -> Look:
        """Attention of B·S tokens (N, 3, H, D) among those of their sentence -> (N, H·D)."""
        texts = packed_rows(mask[:, 0, 0]) if mask.is_cuda and HAS_TRITON else None

        def look(qkv: Tensor) -> Tensor:
            if texts is not None:
                q, k, v = (part.transpose(0, 1).unsqueeze(0) for part in qkv.unbind(dim=1))
                call = Call(Factors(q, k, self.scale), v, texts, causal=False)
                return sdpa.short_texts(call).squeeze(0).transpose(0, 1).flatten(1)
            q, k, v = qkv.unflatten(0, (-1, mask.shape[-1])).permute(2, 0, 3, 1, 4)
            found = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=self.scale)
            return found.transpose(1, 2).reshape(len(qkv), -1)

        return look

    def _layer(
        self, layer: JoinedEncoderLayer, x: Tensor, y: Tensor, look: Look
    ) -> tuple[Tensor, Tensor]:
        """The stream x (N, D), and y that enters the layer -> the same for the next layer."""
        found = look(F.linear(y, *layer.to_qkv).unflatten(1, (3, self.n_heads, -1)))
        added = F.linear(found, *layer.from_self)
        x, y = steps.add_norm(x, added, *layer.after_self, keep=self.norm_first)
        added = F.linear(F.linear(y, *layer.inner).relu_(), *layer.outer)
        return steps.add_norm(x, added, *layer.after_feed_forward, keep=self.norm_first)

    def _tensors(self) -> list[Tensor]:
        parts = [self.first_norm, *chain(*self.layers)]
        return [
            one for part in parts if part is not None for one in part if isinstance(one, Tensor)
        ]
