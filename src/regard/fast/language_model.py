"""A language model that generates in place: every tensor of a step stays where it is.

Keys are kept rotated, in a static cache that doubles when it is full. On a GPU a step is captured
once as a CUDA graph and replayed; on a CPU weights are packed (see ``weights``).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import cast

import torch
from torch import Tensor

from regard.core.numbers import power_of_two
from regard.decoding.cuda_graphs import Graphed, shared_pool
from regard.fast.transformer_gpu import wide_product
from regard.fast.weights import Dense, FastModel, JoinedLayer, JoinedStack, position_codes
from regard.functional.attend import wide
from regard.functional.positions import sinusoid
from regard.kernels import small_batch
from regard.kernels.attention import attention
from regard.kernels.small_batch import Then
from regard.kernels.steps import attend_own, heads
from regard.layers.feed_forward import ACTIVATIONS, GATED
from regard.models.decoder import LanguageModel

MOST_CACHES = 2
"""Caches that are kept for the next text."""
FEWEST_POSITIONS = 256
"""A cache has at least so many, so that the next text fits too."""
FORESEEN = 512
"""Tokens to be written that there is space for at once; for more, the cache grows when it must."""
MOST_NUMBERS = 2**28
"""Of keys and values in a cache; so many rows are written at once."""


class JoinedLanguageModel(JoinedStack):
    """All that a step of a language model computes with; its layers are pre-norm."""

    def __init__(self, model: LanguageModel, dtype: torch.dtype) -> None:
        super().__init__(model.layers, model.norm, dtype, packed=True)
        self.tokens = model.embedding.tokens.weight.detach().to(dtype)
        """(V, D): what tokens are read as."""
        self.output = Dense(model.output().weight.detach().to(dtype), None).packed()
        """(V, D)"""
        self.n_kv_heads = model.config.kv_heads
        self.activation = cast("Then", model.config.activation)

    def activated(self, y: Tensor) -> Tensor:
        """What ``inner`` gave (R, F or 2·F) -> what ``outer`` takes (R, F)."""
        act = ACTIVATIONS[self.activation]
        if self.activation not in GATED:
            return act(y)
        first, beside = y.chunk(2, dim=-1)
        return act(first) * beside


def rotary_turns(model: LanguageModel, n: int) -> Tensor | None:
    """(n, Dh / 2) complex: what pairs of queries and keys are multiplied by; None: not rotary."""
    config, device = model.config, model.embedding.tokens.weight.device
    if config.positions != "rotary":
        return None
    waves = sinusoid(torch.arange(n, device=device), config.head_width, config.rotary_base)
    sin, cos = waves.unflatten(-1, (-1, 2)).unbind(-1)
    return torch.complex(cos, sin)


class StaticLanguageModel(FastModel):
    """A language model's weights of one moment, and static caches to generate with."""

    def __init__(self, model: LanguageModel, dtype: torch.dtype) -> None:
        super().__init__(model, dtype)
        self.weights = JoinedLanguageModel(model, dtype)
        self._caches: list[TextCache] = []

    @contextmanager
    def session(self, n_rows: int, n_read: int, n_new: int) -> Iterator[TextCache]:
        """A cache for so many texts of so many tokens read and written, until it is given back."""
        n_positions = max(FEWEST_POSITIONS, power_of_two(n_read + min(n_new, FORESEEN)))
        with self.lock:
            fit = [c for c in self._caches if c.n_rows >= n_rows and c.n_positions >= n_positions]
            self._caches = fit[1:]  # those that do not fit are let go: their memory is wanted
        cache = fit[0] if fit else TextCache(self, n_rows, n_positions)
        del fit  # others may let go of the rest
        try:
            yield cache
        finally:
            with self.lock:
                self._caches = [cache, *self._caches][:MOST_CACHES]

    def most_rows(self, n_read: int, n_new: int) -> int:
        """Texts of so many tokens that may be written at once."""
        w = self.weights
        numbers = len(w.layers) * 2 * w.n_kv_heads * w.d_head * (n_read + n_new)
        return max(1, MOST_NUMBERS // numbers)


class TextCache:
    """The KV cache of up to P texts of one length; rows from 0 on are in use."""

    def __init__(self, form: StaticLanguageModel, n_rows: int, n_positions: int) -> None:
        self.form = form
        self.n_rows = n_rows
        self.length = 0
        """Tokens read so far, by the host's count."""
        self.ahead = form.device.type == "cuda"
        """Whether steps are launched asynchronously: then one had better ask early."""
        n_vocab = len(form.weights.tokens)
        with form.device:
            self.ids = torch.zeros(n_rows, dtype=torch.int64)
            self.position = torch.zeros(1, dtype=torch.int64)
            self.logits = torch.zeros(n_rows, n_vocab, dtype=wide(form.dtype))
        self._make(n_positions)

    @property
    def n_positions(self) -> int:
        """L: tokens that a text may have before the cache must grow."""
        return self.past.shape[-2]

    def begin(self, _source: Tensor, prompt: Tensor) -> Tensor:
        """Read prompts (B, T) -> logits (B, V) of the next token."""
        weights, (B, T) = self.form.weights, prompt.shape
        x = weights.tokens[prompt]
        if self.codes is not None:
            x = x + self.codes[:T]
        x = x.flatten(0, 1)
        y = weights.first_norm(x)
        for i, layer in enumerate(weights.layers):
            qkv = layer.to_qkv(y).unflatten(0, (B, T))
            x, y = self._layer(layer, x, self._attend_prompt(i, qkv).flatten(0, 1))
        self.length = T
        self.position.fill_(T)
        return self._to_logits(y.unflatten(0, (B, T))[:, -1])

    def step(self, ids: Tensor) -> Tensor:
        """The texts' next ids (R,) -> logits (R, V) after them, until the next step."""
        n = len(ids)
        if self.length == self.n_positions:
            self._grow()
        self.ids[:n] = ids
        size = min(self.n_rows, power_of_two(n)) if self.ahead else n
        if size not in self._steps:
            work = partial(self._work, size)
            self._steps[size] = Graphed(work, changes=(self.position,), pool=self._pool)
        self._steps[size]()
        self.length += 1
        return self.logits[:n]

    def select(self, rows: Tensor) -> None:
        """Go on with these rows, in this order, from row 0 on; an index may repeat."""
        n, t = len(rows), self.length
        for layer in self.past:
            for part in layer:
                part[:n, :, :t] = part[rows, :, :t]

    reorder = select

    def _make(self, n_positions: int) -> None:
        """A cache for so many positions, with nothing in it."""
        form, w = self.form, self.form.weights
        shape = (len(w.layers), 2, self.n_rows, w.n_kv_heads, n_positions, w.d_head)
        # On a CPU the small products of attention are slower in 16 bits.
        kept = form.dtype if form.device.type == "cuda" else wide(form.dtype)
        self.past = torch.zeros(shape, dtype=kept, device=form.device)
        self.turns = rotary_turns(form.model, n_positions)
        self.codes: Tensor | None = None
        """(L, D), added to a token; a learned table may have fewer positions."""
        if form.model.config.positions not in ("rotary", "none"):
            self.codes = position_codes(form.model.embedding, n_positions).to(form.dtype)
        self._last = (n_positions if self.codes is None else min(n_positions, len(self.codes))) - 1
        self._steps: dict[int, Graphed] = {}
        self._pool = shared_pool(form.device)  # the old one is gone with its last graph

    def _grow(self) -> None:
        """Twice the positions, and what was kept in the first half."""
        before = self.past
        self._make(2 * self.n_positions)
        self.past[..., : before.shape[-2], :] = before
        self.position.fill_(self.length)  # it was held at the last position there was

    def _work(self, n_rows: int) -> None:
        """One step of the first rows; never waits for a GPU."""
        weights, past, turns = self.form.weights, self.past, self.turns
        x = weights.tokens[self.ids[:n_rows]]
        if self.codes is not None:
            x = x + self.codes.index_select(0, self.position)
        if self.ahead and small_batch.fits(n_rows):
            self._small_batch_step(x)
        else:
            y = weights.first_norm(x)
            for i, layer in enumerate(weights.layers):
                found = attend_own(layer.to_qkv(y), past[i], self.position, turns, weights.scale)
                x, y = self._layer(layer, x, found)
            self.logits[:n_rows] = self._to_logits(y)
        self.position.add_(1).clamp_(max=self._last)  # when tried out, it comes too far

    def _small_batch_step(self, z: Tensor) -> None:
        """One step of so few rows (R, D) that reading the weights is all there is to do."""
        weights = self.form.weights
        norm = weights.first_norm
        for i, layer in enumerate(weights.layers):
            qkv = small_batch.enter(z, norm, *layer.to_qkv)
            found = attend_own(qkv, self.past[i], self.position, self.turns, weights.scale)
            z = small_batch.leave(found, *layer.from_self, z, None)
            inner = small_batch.enter(z, layer.after_self, *layer.inner, then=weights.activation)
            z = small_batch.leave(inner, *layer.outer, z, None)
            norm = layer.after_feed_forward
        small_batch.enter(z, norm, *weights.output, out=self.logits[: len(z)])

    def _layer(self, layer: JoinedLayer, x: Tensor, found: Tensor) -> tuple[Tensor, Tensor]:
        """The stream x (N, D) and what attention found -> the stream, and y for the next layer."""
        x = layer.from_self.plus(found, x)
        inner = self.form.weights.activated(layer.inner(layer.after_self(x)))
        x = layer.outer.plus(inner, x)
        return x, layer.after_feed_forward(x)

    def _attend_prompt(self, i: int, qkv: Tensor) -> Tensor:
        """Attention of layer i over texts from their beginning, (B, T, …) -> (B, T, H·D)."""
        w, turns, (B, T, _) = self.form.weights, self.turns, qkv.shape
        turns = None if turns is None else turns[:T]
        parts = heads(qkv.to(self.past.dtype), w.n_kv_heads, w.d_head, turns)
        q, k, v = (part.transpose(1, 2) for part in parts)
        self.past[i, 0, :B, :, :T], self.past[i, 1, :B, :, :T] = k, v
        n = w.n_heads // w.n_kv_heads
        k, v = (part.repeat_interleave(n, dim=1) for part in (k, v))
        return attention(q, k, v, causal=True).transpose(1, 2).flatten(2).to(qkv.dtype)

    def _to_logits(self, x: Tensor) -> Tensor:
        output = self.form.weights.output
        if x.is_cuda:
            return wide_product(x, output.weight)
        return output(x).to(self.logits.dtype)
