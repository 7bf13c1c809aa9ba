"""A Transformer that writes in place, for GPUs: every tensor of a step stays where it is.

So a step can be captured as a CUDA graph, beams are reordered by permuting a small table, and
hypotheses of one sentence share its keys and values. See ``regard.kernels.steps``.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.decoding.cuda_graphs import Graphed, shared_pool
from regard.fast.weights import (
    Dense,
    FastTransformer,
    JoinedDecoder,
    JoinedLayer,
    JoinedStack,
    Norm,
    position_codes,
)
from regard.functional import masks
from regard.functional.packing import PackedMask, packed_rows
from regard.functional.scores import Factors
from regard.kernels import sdpa, small_batch, steps
from regard.kernels.call import Call
from regard.kernels.gpu import HAS_TRITON
from regard.kernels.steps import Best
from regard.models.transformer import Transformer, TransformerEncoder

SMALL_BATCH = 512
"""Sources of no more tokens are always read by a CUDA graph: computing them takes no time."""
STRIDE = 16
"""These are padded to a multiple of it, so that few sizes are captured; larger ones are captured
when they come again."""
MOST_GRAPHS = 32
"""CUDA graphs of the encoder that are kept, and sizes that are remembered."""


class GpuTransformer(FastTransformer):
    """A Transformer's weights, copied once, to write in place with."""

    def __init__(self, model: Transformer, dtype: torch.dtype) -> None:
        super().__init__(model, dtype)
        self.encoder = JoinedEncoder(model.encoder, dtype)
        self.joined = JoinedDecoder(model.decoder, dtype)
        self._readers: dict[tuple[int, int], _GraphedEncoder] = {}
        self._seen_sizes: list[tuple[int, int]] = []
        self._pool = shared_pool(self.device)

    def update(self, model: Transformer) -> None:
        """The weights that the model has now."""
        self.encoder.update(JoinedEncoder(model.encoder, self.dtype))
        self.joined.update(JoinedDecoder(model.decoder, self.dtype))
        self.codes.copy_(position_codes(model.decoder.embedding, len(self.codes)))

    def cache(self, n_rows: int, n_steps: int, n_tokens: int, n_beams: int) -> GpuCache:
        """Cache for so many rows of so many steps, and sources of so many tokens in all."""
        return GpuCache(self, n_rows, n_steps, n_tokens, n_beams)

    def read(self, source: Tensor) -> Tensor:
        """Source ids (B, S) -> (B, S', D), perhaps padded further."""
        B, S = source.shape
        is_small = B * S <= SMALL_BATCH
        size = (B, self._padded(S) if is_small else S)
        if not source.is_cuda or not (is_small or size in self._seen_sizes):
            self._seen_sizes = [*self._seen_sizes[1 - MOST_GRAPHS :], size]
            return self.encoder(source, masks.padding(source, pad=self.pad_id))
        reader = self._readers.pop(size, None) or _GraphedEncoder(self, *size, self._pool)
        self._readers[size] = reader
        if len(self._readers) > MOST_GRAPHS:
            del self._readers[next(iter(self._readers))]
        return reader(source)

    def _padded(self, n_tokens: int) -> int:
        """A multiple of ``STRIDE``, unless learned positions end before it."""
        padded = -(-n_tokens // STRIDE) * STRIDE
        return padded if self.longest is None else max(n_tokens, min(padded, self.longest))


class JoinedEncoder(JoinedStack):
    """An encoder with no more calls than there are kernels.

    Reading takes a few milliseconds however few the words are, if every layer makes its calls one
    by one. A short translation on a GPU takes not much longer.
    """

    def __init__(self, encoder: TransformerEncoder, dtype: torch.dtype) -> None:
        super().__init__(encoder.layers, encoder.norm, dtype)
        self.embedding = copy.deepcopy(encoder.embedding).to(dtype).requires_grad_(False)

    def __call__(self, source: Tensor, mask: Tensor) -> Tensor:
        """ids (B, S), mask (B, 1, 1, S) -> (B, S, D)."""
        B, S = source.shape
        x = self.embedding(source).flatten(0, 1)  # (B·S, D)
        y = x if self.first_norm is None else F.layer_norm(x, x.shape[-1:], *self.first_norm)
        texts = packed_rows(mask[:, 0, 0]) if mask.is_cuda and HAS_TRITON else None
        for layer in self.layers:
            qkv = F.linear(y, *layer.to_qkv).unflatten(1, (3, self.n_heads, -1))
            added = F.linear(self._attend(qkv, mask, texts), *layer.from_self)
            x, y = steps.add_norm(x, added, *layer.after_self, keep=self.norm_first)
            added = F.linear(F.linear(y, *layer.inner).relu_(), *layer.outer)
            x, y = steps.add_norm(x, added, *layer.after_feed_forward, keep=self.norm_first)
        return y.view(B, S, -1)

    def _attend(self, qkv: Tensor, mask: Tensor, texts: PackedMask | None) -> Tensor:
        """Attention of B·S tokens (N, 3, H, D) among those of their sentence -> (N, H·D)."""
        if texts is not None:
            q, k, v = (part.transpose(0, 1).unsqueeze(0) for part in qkv.unbind(dim=1))
            call = Call(Factors(q, k, self.scale), v, texts, causal=False)
            return sdpa.short_texts(call).squeeze(0).transpose(0, 1).flatten(1)
        q, k, v = qkv.unflatten(0, (-1, mask.shape[-1])).permute(2, 0, 3, 1, 4)
        found = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=self.scale)
        return found.transpose(1, 2).reshape(len(qkv), -1)


class _GraphedEncoder:
    """The encoder for sources of one shape, captured as a CUDA graph."""

    def __init__(self, model: GpuTransformer, n_rows: int, n_tokens: int, pool: Any) -> None:
        d_model = model.joined.tokens.shape[1]
        self.model = model
        with model.device:
            self.source = torch.full((n_rows, n_tokens), model.pad_id)
            self.encoded = torch.empty(n_rows, n_tokens, d_model, dtype=model.dtype)
        self.read = Graphed(self._read, changes=[self.encoded], pool=pool)

    def _read(self) -> None:
        mask = masks.padding(self.source, pad=self.model.pad_id)
        self.encoded.copy_(self.model.encoder(self.source, mask))

    def __call__(self, source: Tensor) -> Tensor:
        self.source.fill_(self.model.pad_id)
        self.source[:, : source.shape[1]] = source
        self.read()
        return self.encoded


class GpuCache:
    """Where up to P hypotheses are written. Rows from 0 on are in use, as many as one asks for."""

    def __init__(
        self, model: GpuTransformer, n_rows: int, n_steps: int, n_tokens: int, n_beams: int
    ) -> None:
        weights = model.joined
        n_layers, H, D = len(weights.layers), weights.n_heads, weights.d_head
        self.model = model
        self.n_rows, self.n_steps, self.n_tokens = n_rows, n_steps, n_tokens
        self.codes = model.codes_for(n_steps)
        with model.device:
            self.past = torch.zeros(n_layers, 2, n_rows, H, n_steps, D, dtype=model.dtype)
            self.memory = torch.zeros(n_tokens, n_layers, 2, H, D, dtype=model.dtype)
            self.table = torch.zeros(n_rows, n_steps, dtype=torch.int32)
            """(P, L): in which row each position of a row's past lies."""
            self.ids = torch.zeros(n_rows, dtype=torch.int64)
            self.positions = torch.zeros(n_rows, dtype=torch.int32)
            self.owners = torch.zeros(n_rows, dtype=torch.int32)
            self.begins = torch.zeros(n_rows, dtype=torch.int32)
            """(P,): where in the memory each source begins."""
            self.lengths = torch.zeros(n_rows, dtype=torch.int32)
            self.firsts = torch.arange(0, n_rows, n_beams).unsqueeze(1)
            """(P / K, 1): the first row of each sentence."""

    def read(self, source: Tensor) -> None:
        """Remember the sources (B, S), padded at their ends."""
        encoded = self.model.read(source)
        B, S, _ = encoded.shape
        here = self.memory[: B * S].flatten(1)
        weight, bias = self.model.joined.to_source
        if bias is None:
            torch.mm(encoded.flatten(0, 1), weight.t(), out=here)
        else:
            torch.addmm(bias, encoded.flatten(0, 1), weight.t(), out=here)
        torch.arange(0, B * S, S, out=self.begins[:B])
        torch.sum(source != self.model.pad_id, dim=1, dtype=torch.int32, out=self.lengths[:B])

    def step(self, n_rows: int) -> Tensor:
        """The next token's logits (R, V) of the first R rows, in float32."""
        weights = self.model.joined
        x = self._embedded(n_rows)
        y = x if weights.first_norm is None else F.layer_norm(x, x.shape[-1:], *weights.first_norm)
        for i, layer in enumerate(weights.layers):
            x, y = self._layer(layer, i, x, y, self.positions[:n_rows])
        return wide_product(y, weights.tokens)

    def best(self, n_rows: int, n: int, *, n_hidden: int) -> Best:
        """The next token's n best of the first R rows."""
        if not small_batch.fits(n_rows, n):
            return steps.best_tokens(self.step(n_rows), n, n_hidden=n_hidden)
        weights = self.model.joined
        z, norm = self._embedded(n_rows), weights.first_norm
        for i, layer in enumerate(weights.layers):
            z, norm = self._small_batch_layer(layer, i, z, norm)
        return small_batch.best_tokens(z, norm, weights.tokens, n, n_hidden=n_hidden)

    def reorder(self, parents: Tensor) -> None:
        """Only the table changes."""
        rows = (self.firsts[: len(parents)] + parents).flatten()
        self.table[: len(rows)] = self.table[rows]

    def move(self, rows: Tensor) -> None:
        """Keys and values stay where they are."""
        for part in (self.ids, self.positions, self.owners, self.table):
            part[: len(rows)] = part[rows]

    def changes(self) -> tuple[Tensor, ...]:
        """All that a step or a reordering changes, but for keys and values it writes again."""
        return self.ids, self.positions, self.table

    def _embedded(self, n_rows: int) -> Tensor:
        weights = self.model.joined
        ids, positions, scale = self.ids[:n_rows], self.positions[:n_rows], weights.embedding_scale
        return steps.embed(ids, positions, self.table, weights.tokens, self.codes, scale)

    def _small_batch_layer(
        self, layer: JoinedLayer, i: int, z: Tensor, norm: Norm | None
    ) -> tuple[Tensor, Norm]:
        """The stream z (R, D), and the norm still to be done to it -> those after the layer."""
        scale, norm_first = self.model.joined.scale, self.model.joined.norm_first
        qkv, positions = small_batch.enter(z, norm, *layer.to_qkv), self.positions[: len(z)]
        found = steps.attend_past(qkv, self.past[i], self.table, positions, scale)
        z = small_batch.leave(found, *layer.from_self, z, None if norm_first else norm)
        norm = layer.after_self
        found = steps.attend_source(
            small_batch.enter(z, norm, *layer.to_q),
            self.memory[:, i], self.owners, self.begins, self.lengths, scale,
        )  # fmt: skip
        weight, bias = layer.from_source
        z = small_batch.leave(found, weight, bias, z, None if norm_first else norm)
        norm = layer.after_source
        inner = small_batch.enter(z, norm, *layer.inner, then="relu")
        z = small_batch.leave(inner, *layer.outer, z, None if norm_first else norm)
        return z, layer.after_feed_forward

    def _layer(
        self, layer: JoinedLayer, i: int, x: Tensor, y: Tensor, positions: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The stream x (R, D), and y that enters the layer -> the same for the next layer."""
        scale, keep = self.model.joined.scale, self.model.joined.norm_first
        qkv = F.linear(y, *layer.to_qkv)
        found = steps.attend_past(qkv, self.past[i], self.table, positions, scale)
        added = F.linear(found, *layer.from_self)
        x, y = steps.add_norm(x, added, *layer.after_self, keep=keep)
        q, memory = F.linear(y, *layer.to_q), self.memory[:, i]
        found = steps.attend_source(q, memory, self.owners, self.begins, self.lengths, scale)
        added = F.linear(found, *layer.from_source)
        x, y = steps.add_norm(x, added, *layer.after_source, keep=keep)
        added = F.linear(_rectified(layer.inner, y), *layer.outer)
        return steps.add_norm(x, added, *layer.after_feed_forward, keep=keep)


def _rectified(layer: Dense, x: Tensor) -> Tensor:
    """relu(W x + b), on a GPU in one kernel."""
    if x.is_cuda and layer.bias is not None:
        return torch._addmm_activation(layer.bias, x, layer.weight.t())
    return F.linear(x, *layer).relu_()


def wide_product(x: Tensor, tokens: Tensor) -> Tensor:
    """States (R, D) and tokens (V, D) -> logits (R, V) in float32, not rounded in between."""
    if x.dtype == torch.float32:
        return F.linear(x, tokens)
    if x.is_cuda:
        return torch.mm(x, tokens.t(), out_dtype=torch.float32)
    return F.linear(x, tokens).float()
