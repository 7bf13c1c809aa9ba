"""A Transformer that writes in place, for CPUs: weights laid out once, nothing copied to reorder.

The K hypotheses of a sentence lie side by side. Each asks all of them about their past and a mask
leaves it its own: that is one product with K rows where reordered caches would need K products with
one row each, and a copy of the caches. What is kept of past and source is float32, since
attention's small products are slower in bf16.
"""

from __future__ import annotations

import copy
import math

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.fast.weights import (
    Dense,
    FastTransformer,
    JoinedDecoder,
    JoinedLayer,
    Norm,
    pack_linears,
    position_codes,
)
from regard.functional import masks
from regard.kernels.steps import Best, best_tokens
from regard.models.transformer import Transformer


class CpuTransformer(FastTransformer):
    """A Transformer's weights, laid out for the CPU."""

    def __init__(self, model: Transformer, dtype: torch.dtype) -> None:
        super().__init__(model, dtype)
        self.update(model)

    def update(self, model: Transformer) -> None:
        """The weights that the model has now."""
        self.codes.copy_(position_codes(model.decoder.embedding, len(self.codes)))
        encoder = copy.deepcopy(model.encoder).to(self.dtype).requires_grad_(False)
        self.encoder = pack_linears(encoder)
        self.weights = JoinedDecoder(model.decoder, self.dtype)
        self.layers = [_packed(layer, self.weights.scale) for layer in self.weights.layers]
        self.to_source = self.weights.to_source.packed()
        self.to_logits = Dense(self.weights.tokens, None).packed()

    def cache(self, n_rows: int, n_steps: int, n_tokens: int, n_beams: int) -> CpuCache:
        """Cache for so many rows of so many steps."""
        return CpuCache(self, n_rows, n_steps, n_tokens, n_beams)


def _packed(layer: JoinedLayer, scale: float) -> JoinedLayer:
    """The layer with its weights packed, and the scores' scale in those of the queries."""
    D = layer.from_self.weight.shape[1]
    to_qkv = layer.to_qkv.scaled(torch.tensor([scale] * D + [1.0] * (2 * D)))
    to_q = layer.to_q.scaled(torch.full((D,), scale))
    return layer._replace(to_qkv=to_qkv, to_q=to_q).packed()


class CpuCache:
    """Where up to P hypotheses are written, K a sentence side by side."""

    def __init__(
        self, model: CpuTransformer, n_rows: int, n_steps: int, n_tokens: int, n_beams: int
    ) -> None:
        H, D, B = model.weights.n_heads, model.weights.d_head, n_rows // n_beams
        self.model, self.n_beams = model, n_beams
        self.n_rows, self.n_steps, self.n_tokens = n_rows, n_steps, n_tokens
        self.codes = model.codes_for(n_steps)
        # Pages of the system that nobody has written to cost nothing.
        self.past = torch.zeros(len(model.layers), 2, B, H, n_steps, n_beams, D)
        self.others = torch.zeros(B, n_beams, n_steps, n_beams)
        """What is added to scores: -inf for positions that belong to the past of others only."""
        self.memory = torch.empty(0)
        """(n_layers, 2, B, H, S, D)"""
        self.padding: Tensor | None = None
        """(B, 1, 1, S), added to scores; None where there is none."""
        self.ids = torch.zeros(n_rows, dtype=torch.int64)
        self.positions, self.owners = torch.zeros(2, n_rows, dtype=torch.int32)

    def read(self, source: Tensor) -> None:
        """Remember the sources (B, S)."""
        model, (B, S) = self.model, source.shape
        mask = masks.padding(source, pad=model.pad_id)
        encoded = model.encoder(source, mask).flatten(0, 1)
        H, D = model.weights.n_heads, model.weights.d_head
        kv = model.to_source(encoded).float().view(B, S, len(model.layers), 2, H, D)
        self.memory = kv.permute(2, 3, 0, 4, 1, 5).contiguous()
        self.padding = None
        if not mask.all():
            self.padding = torch.where(mask, 0.0, torch.finfo(torch.float32).min)
            self.memory[:, 1, ~mask.any(dim=-1).flatten()] = 0.0  # a source of nothing gives zeros

    def step(self, n_rows: int) -> Tensor:
        """The next token's logits (R, V) of the first R rows."""
        weights, t = self.model.weights, int(self.positions[0])
        tokens = weights.tokens[self.ids[:n_rows]]
        x = torch.add(self.codes[t], tokens, alpha=weights.embedding_scale)
        y = x if weights.first_norm is None else F.layer_norm(x, x.shape[-1:], *weights.first_norm)
        hidden = self._own(t, n_rows // self.n_beams)
        for i, layer in enumerate(self.model.layers):
            x, y = self._layer(layer, i, t, x, y, hidden)
        return self.model.to_logits(y)

    def best(self, n_rows: int, n: int, *, n_hidden: int) -> Best:
        """The next token's n best of the first R rows."""
        return best_tokens(self.step(n_rows), n, n_hidden=n_hidden)

    def _own(self, t: int, n: int) -> Tensor | None:
        """(B, 1, K, (t + 1)·K): what is added so that each hypothesis sees its own past only."""
        if self.n_beams == 1:
            return None
        now = torch.full((self.n_beams, self.n_beams), -math.inf).fill_diagonal_(0.0)
        self.others[:n, :, t] = now
        return self.others[:n, :, : t + 1].flatten(2).unsqueeze(1)

    def _layer(
        self, layer: JoinedLayer, i: int, t: int, x: Tensor, y: Tensor, hidden: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """The stream x (R, D), and y that enters the layer -> the same for the next layer."""
        K, keep = self.n_beams, self.model.weights.norm_first
        B, (_, _, _, H, _, _, D) = len(x) // K, self.past.shape
        q, k, v = layer.to_qkv(y).float().view(B, K, 3, H, D).permute(2, 0, 3, 1, 4)
        self.past[i, 0, :B, :, t], self.past[i, 1, :B, :, t] = k, v
        keys, values = self.past[i, :, :B, :, : t + 1].flatten(3, 4)  # (B, H, (t + 1)·K, D)
        found = _found(q, keys, values, hidden).to(y.dtype)
        x, y = _normed(layer.from_self.plus(found, x), layer.after_self, keep)
        q = layer.to_q(y).float().view(B, K, H, D).transpose(1, 2)
        keys, values = self.memory[i]
        found = _found(q, keys, values, self.padding).to(y.dtype)
        x, y = _normed(layer.from_source.plus(found, x), layer.after_source, keep)
        added = layer.inner(y, then="relu")
        return _normed(layer.outer.plus(added, x), layer.after_feed_forward, keep)

    def reorder(self, parents: Tensor) -> None:
        """Only the mask changes: who descends from whom."""
        B, K = parents.shape
        t = int(self.positions[0]) + 1
        which = parents[:, :, None, None].expand(-1, -1, t, K)
        self.others[:B, :, :t] = self.others[:B, :, :t].gather(1, which)

    def move(self, rows: Tensor) -> None:
        """What belongs to sentences that go on moves together; they stay in their order."""
        for part in (self.ids, self.positions, self.owners):
            part[: len(rows)] = part[rows]
        sentences = rows[:: self.n_beams] // self.n_beams
        B, t = len(sentences), int(self.positions[0])
        self.others[:B, :, :t] = self.others[sentences, :, :t]
        self.memory = self.memory.index_select(2, sentences)
        self.padding = None if self.padding is None else self.padding[sentences]
        for layer in self.past:
            for part in layer:
                part[:B, :, :t] = part[sentences, :, :t]

    def changes(self) -> tuple[Tensor, ...]:
        """Nothing is captured on a CPU."""
        return (self.ids,)


def _found(q: Tensor, k: Tensor, v: Tensor, added: Tensor | None) -> Tensor:
    """Queries (B, H, K, D), keys and values (B, H, S, D) -> (B·K, H·D)."""
    scores = q @ k.mT
    if added is not None:
        scores += added
    return (scores.softmax(dim=-1) @ v).transpose(1, 2).flatten(2).flatten(0, 1)


def _normed(x: Tensor, norm: Norm, keep: bool) -> tuple[Tensor, Tensor]:
    y = F.layer_norm(x, x.shape[-1:], *norm)
    return (x if keep else y), y
