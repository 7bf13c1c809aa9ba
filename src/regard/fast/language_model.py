"""A language model that generates in place: every tensor of a step stays where it is.

Queries, keys and values are one product, and so are the two halves of a gated feed-forward. Keys
are kept rotated, in a static cache that doubles when it is full. On a GPU a step is recorded once
as a CUDA graph and replayed; on a CPU weights are laid out once as its kernels want them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.core.numbers import power_of_two
from regard.decoding.static import Graphed, shared_pool
from regard.fast.prepacked import Prepacked
from regard.fast.transformer_gpu import wide_product
from regard.fast.weights import Dense, position_codes
from regard.functional.attend import wide
from regard.functional.positions import sinusoid
from regard.kernels import small_batch
from regard.kernels.attention import attention
from regard.kernels.small_batch import Then
from regard.kernels.steps import attend_own, heads
from regard.layers.blocks import ACTIVATIONS, GATED, DecoderBlock
from regard.models.decoder import LanguageModel

MOST_CACHES = 2
"""Caches that are kept for the next text."""
FEWEST_PLACES = 256
"""A cache has at least so many, so that the next text fits too."""
FORESEEN = 512
"""Tokens to be written that there is space for at once; for more, the cache grows when it must."""
MOST_NUMBERS = 2**28
"""Of keys and values in a cache; so many rows are written at once."""


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
class JoinedLanguageModel:
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


def joined_language_model(model: LanguageModel, dtype: torch.dtype) -> JoinedLanguageModel:
    """A model's weights joined; what needs no change is no copy."""
    config = model.config
    layers = cast("Iterable[DecoderBlock]", model.layers)
    return JoinedLanguageModel(
        tokens=model.embedding.tokens.weight.detach().to(dtype),
        layers=tuple(_layer(layer, dtype) for layer in layers),
        norm=TextNorm.of(model.norm, dtype),
        output=Prepacked.of(model.output().weight.detach().to(dtype), None),
        n_heads=config.n_heads,
        n_kv_heads=config.kv_heads,
        d_head=config.d_head,
        activation=cast("Then", config.activation),
    )


def _layer(layer: DecoderBlock, dtype: torch.dtype) -> TextLayer:
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


class PositionTables(NamedTuple):
    """What tokens are told of their places, for so many of them."""

    codes: Tensor | None
    """(L, D), added to a token; a learned table may have fewer places."""
    turns: Tensor | None
    """(L, Dh / 2) complex: what pairs of queries and keys are multiplied by."""

    @classmethod
    def of(cls, model: LanguageModel, n: int, dtype: torch.dtype) -> PositionTables:
        """For n places."""
        config, device = model.config, model.embedding.tokens.weight.device
        if config.positions == "rotary":
            waves = sinusoid(torch.arange(n, device=device), config.d_head, config.rotary_base)
            sin, cos = waves.unflatten(-1, (-1, 2)).unbind(-1)
            return cls(None, torch.complex(cos, sin))
        if config.positions == "none":
            return cls(None, None)
        return cls(position_codes(model.embedding, n).to(dtype), None)

    def n_known(self, n: int) -> int:
        """How many of n places there are codes for: learned ones end with their table."""
        return n if self.codes is None else min(n, len(self.codes))


class StaticLanguageModel:
    """A language model's weights of one moment, and static caches to generate with.

    Speaks the protocol of ``regard.decoding``; what has no cache is served by the model itself.
    """

    def __init__(self, model: LanguageModel, dtype: torch.dtype) -> None:
        self.model = model
        self.encode, self.start = model.encode, model.start
        self.step, self.prefill = model.step, model.prefill
        self.dtype = dtype
        self.device: torch.device = model.embedding.tokens.weight.device
        self.longest: int | None = model.config.longest
        self.weights = joined_language_model(model, dtype)
        self._caches: list[TextCache] = []
        self._lock = Lock()

    def __call__(self, source: Tensor, target: Tensor) -> Tensor:
        """All positions at once are the model's own work."""
        return self.model(source, target)

    @contextmanager
    def session(self, n_rows: int, n_read: int, n_new: int) -> Iterator[TextCache]:
        """A cache for so many texts of so many tokens read and written, until it is given back."""
        n_places = max(FEWEST_PLACES, power_of_two(n_read + min(n_new, FORESEEN)))
        cache = self._kept(n_rows, n_places) or TextCache(self, n_rows, n_places)
        try:
            yield cache
        finally:
            with self._lock:
                self._caches = [cache, *self._caches][:MOST_CACHES]

    def most_rows(self, n_read: int, n_new: int) -> int:
        """Texts of so many tokens that may be written at once."""
        w = self.weights
        numbers = len(w.layers) * 2 * w.n_kv_heads * w.d_head * (n_read + n_new)
        return max(1, MOST_NUMBERS // numbers)

    def _kept(self, n_rows: int, n_places: int) -> TextCache | None:
        """A kept cache that fits. Those that do not fit are let go: their memory is wanted."""
        with self._lock:
            fit = [c for c in self._caches if c.n_rows >= n_rows and c.n_places >= n_places]
            self._caches = fit[1:]
            return fit[0] if fit else None


class TextCache:
    """The KV cache of up to P texts of one length; rows from 0 on are in use."""

    def __init__(self, form: StaticLanguageModel, n_rows: int, n_places: int) -> None:
        self.form = form
        self.n_rows = n_rows
        self.length = 0
        """Tokens read so far, by the host's count."""
        self.ahead = form.device.type == "cuda"
        """Whether a step is only begun when it is asked for: then one had better ask early."""
        n_vocab = len(form.weights.tokens)
        with form.device:
            self.ids = torch.zeros(n_rows, dtype=torch.int64)
            self.place = torch.zeros(1, dtype=torch.int64)
            self.logits = torch.zeros(n_rows, n_vocab, dtype=wide(form.dtype))
        self._make(n_places)

    @property
    def n_places(self) -> int:
        """L: tokens that a text may have before the cache must grow."""
        return self.past.shape[-2]

    def begin(self, _source: Tensor, prompt: Tensor) -> Tensor:
        """Read prompts (B, T) -> logits (B, V) of the next token."""
        weights, (B, T) = self.form.weights, prompt.shape
        x = weights.tokens[prompt]
        if self.tables.codes is not None:
            x = x + self.tables.codes[:T]
        x = x.flatten(0, 1)
        for i, layer in enumerate(weights.layers):
            qkv = layer.to_qkv(layer.before_self(x)).unflatten(0, (B, T))
            x = self._layer(layer, x, self._read_by(i, qkv).flatten(0, 1))
        self.length = T
        self.place.fill_(T)
        last = weights.norm(x.unflatten(0, (B, T))[:, -1])
        return self._to_logits(last)

    def step(self, ids: Tensor) -> Tensor:
        """The texts' next ids (R,) -> logits (R, V) after them, until the next step."""
        n = len(ids)
        if self.length == self.n_places:
            self._grow()
        self.ids[:n] = ids
        size = min(self.n_rows, power_of_two(n)) if self.ahead else n
        if size not in self._steps:
            work = partial(self._work, size)
            self._steps[size] = Graphed(work, changes=(self.place,), pool=self._pool)
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

    def _make(self, n_places: int) -> None:
        """A cache for so many places, with nothing in it."""
        form, w = self.form, self.form.weights
        shape = (len(w.layers), 2, self.n_rows, w.n_kv_heads, n_places, w.d_head)
        # On a CPU the small products of attention are slower in 16 bits.
        kept = form.dtype if form.device.type == "cuda" else wide(form.dtype)
        self.past = torch.zeros(shape, dtype=kept, device=form.device)
        self.tables = PositionTables.of(form.model, n_places, form.dtype)
        self._last = self.tables.n_known(n_places) - 1
        self._steps: dict[int, Graphed] = {}
        self._pool = shared_pool(form.device)  # the old one is gone with its last graph

    def _grow(self) -> None:
        """Twice the places, and what was kept in the first half."""
        before = self.past
        self._make(2 * self.n_places)
        self.past[..., : before.shape[-2], :] = before
        self.place.fill_(self.length)  # it was held at the last place there was

    def _work(self, n_rows: int) -> None:
        """One step of the first rows; never waits for a GPU."""
        weights, past, turns = self.form.weights, self.past, self.tables.turns
        x = weights.tokens[self.ids[:n_rows]]
        if self.tables.codes is not None:
            x = x + self.tables.codes.index_select(0, self.place)
        if self.ahead and small_batch.fits(n_rows):
            self._few(x)
        else:
            for i, layer in enumerate(weights.layers):
                qkv = layer.to_qkv(layer.before_self(x))
                found = attend_own(qkv, past[i], self.place, turns, weights.scale)
                x = self._layer(layer, x, found)
            self.logits[:n_rows] = self._to_logits(weights.norm(x))
        self.place.add_(1).clamp_(max=self._last)  # when tried out, it comes too far

    def _few(self, z: Tensor) -> None:
        """As ``_work``, for so few rows (R, D) that reading the weights is all there is to do."""
        weights = self.form.weights
        for i, layer in enumerate(weights.layers):
            qkv = small_batch.enter(z, layer.before_self, *layer.to_qkv)
            found = attend_own(qkv, self.past[i], self.place, self.tables.turns, weights.scale)
            z = small_batch.leave(found, *layer.from_self, z, None)
            inner = small_batch.enter(
                z, layer.before_forward, *layer.inner, then=weights.activation
            )
            z = small_batch.leave(inner, *layer.outer, z, None)
        small_batch.enter(z, weights.norm, *weights.output, out=self.logits[: len(z)])

    def _layer(self, layer: TextLayer, x: Tensor, found: Tensor) -> Tensor:
        """The stream x (N, D) and what attention found -> the stream after the layer."""
        x = layer.from_self.plus(found, x)
        inner = self.form.weights.activated(layer.inner(layer.before_forward(x)))
        return layer.outer.plus(inner, x)

    def _read_by(self, i: int, qkv: Tensor) -> Tensor:
        """Attention of layer i over texts from their beginning, (B, T, …) -> (B, T, H·D)."""
        w, turns, (B, T, _) = self.form.weights, self.tables.turns, qkv.shape
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
