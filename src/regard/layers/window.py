"""Which keys a query may see, beyond what the caller's mask hides."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

import torch
from torch import Tensor, nn
from typing_extensions import override

from regard.core.errors import ConfigError
from regard.core.registry import Registry
from regard.functional import masks
from regard.functional.masks import Block, Mask, Near, Nearby, Slots
from regard.layers.key_values import CompressedKeyValues, KeyValues, with_slots


class Restriction(NamedTuple):
    """What a window asks of the kernel."""

    mask: Mask
    """Boolean, broadcastable to (B, H, T, S)."""
    causal: bool
    """Whether the future is hidden besides; kept apart because kernels do it for free."""
    prior: Tensor | None = None
    """Multiplies the weights after normalising."""
    near: Nearby | None = None
    """A window by positions, which kernels know better than to write out."""


class KeyWidths(NamedTuple):
    """Heads that have keys and values of their own, and how wide these are."""

    n_heads: int
    d_key: int
    d_value: int


class Window(nn.Module):
    """The window ``global``: all that the mask allows. The others derive from it.

    Keys and values are kept one a position, and looked at so, unless a window says otherwise.
    """

    def __init__(
        self,
        d_query: int,
        half_width: int,
        n_heads: int | None = None,
        keys: KeyWidths | None = None,
    ) -> None:
        super().__init__()
        if half_width < 1:
            raise ConfigError(f"half_width={half_width}: a local window needs at least 1")
        self.half_width = half_width

    def forward(self, q: Tensor, n_keys: int, mask: Mask, causal: bool, first: int) -> Restriction:
        """q (B, H, T, Dq), whose first query stands at position ``first`` -> what it may see."""
        return Restriction(mask, causal)

    def by_text(self, q: Tensor, n_keys: int, first: Tensor) -> Restriction:
        """The same, the future hidden, for texts whose first queries stand at ``first`` (B,)."""
        n_queries = q.shape[-2]
        past = masks.causal(n_queries, n_keys, first=first, device=q.device)
        found = self(q, n_keys, past, causal=False, first=0)._replace(causal=False)
        if found.near is None:
            return found
        near = found.near.sees(*masks.positions(n_queries, n_keys, first, q.device))
        return found._replace(mask=masks.both(masks.dense(found.mask), near), near=None)

    def kept(self, tokens: KeyValues) -> KeyValues:
        """Keys and values of a text's positions -> what is kept of it."""
        return tokens

    def extended(self, past: KeyValues, tokens: KeyValues) -> KeyValues:
        """What is kept of a text that goes on with these positions."""
        return past.extended(tokens) if past.length else tokens

    def looked_at(self, kept: KeyValues) -> KeyValues:
        """Keys and values that queries see."""
        return kept

    def places(self, keys: Tensor) -> Tensor | None:
        """Positions (S,) of keys (B, H, S, Dk) that are looked at; None, one a position from 0."""
        return None

    def behind(self, prefix: KeyValues, own: KeyValues, lengths: Tensor) -> KeyValues:
        """Keys and values that queries see of texts behind prefixes of ``lengths`` (B,)."""
        return self.looked_at(own).behind(self.looked_at(prefix), lengths)

    def visible_prefix(self, prefix: KeyValues, lengths: Tensor) -> tuple[KeyValues, Tensor]:
        """The end of prefixes that queries behind them can see, and its lengths (B,).

        Its positions are counted from 0 again, which changes nothing where distances alone count.
        """
        return prefix, lengths


class CausalWindow(Window):
    """``causal``: nothing that comes later."""

    @override
    def forward(self, q: Tensor, n_keys: int, mask: Mask, causal: bool, first: int) -> Restriction:
        return Restriction(mask, causal=True)


class MonotonicWindow(Window):
    """``local_m``: D keys to either side of the query's own position (Luong et al. 2015)."""

    @override
    def forward(self, q: Tensor, n_keys: int, mask: Mask, causal: bool, first: int) -> Restriction:
        return Restriction(mask, causal, near=Near(self.half_width, first))

    @override
    def visible_prefix(self, prefix: KeyValues, lengths: Tensor) -> tuple[KeyValues, Tensor]:
        begins = (lengths - self.half_width).clamp(min=0)
        return _slices(prefix, begins, self.half_width), lengths - begins


class BlockWindow(Window):
    """``block``: positions are cut into blocks of 2D, and a query sees its own (Liu et al. 2018).

    A query of a decoder sees the block of the source that has the number of its own.
    """

    @override
    def forward(self, q: Tensor, n_keys: int, mask: Mask, causal: bool, first: int) -> Restriction:
        return Restriction(mask, causal, near=Block(2 * self.half_width, first))

    @override
    def visible_prefix(self, prefix: KeyValues, lengths: Tensor) -> tuple[KeyValues, Tensor]:
        length = 2 * self.half_width
        begins = lengths // length * length
        return _slices(prefix, begins, length - 1), lengths - begins


class PredictedWindow(Window):
    """``local_p``: D keys to either side of a centre that the query predicts (Luong et al. 2015).

    S in p = S·sigmoid(…) is the number of keys that the query may see by the mask and by
    causality: a sentence's true length, padding not counted.
    """

    def __init__(
        self,
        d_query: int,
        half_width: int,
        n_heads: int | None = None,
        keys: KeyWidths | None = None,
    ) -> None:
        super().__init__(d_query, half_width)
        heads = () if n_heads is None else (n_heads,)
        std = 1.0 / math.sqrt(d_query)
        self.weight = nn.Parameter(torch.randn(*heads, d_query, d_query) * std)
        self.v = nn.Parameter(torch.randn(*heads, d_query) * std)

    @override
    def forward(self, q: Tensor, n_keys: int, mask: Mask, causal: bool, first: int) -> Restriction:
        mask = masks.dense(mask)
        if causal:
            mask = masks.both(mask, masks.causal(q.shape[-2], n_keys, device=q.device))
        if mask is None:
            lengths = torch.full((1,), float(n_keys), device=q.device)
        else:
            lengths = mask.expand(*mask.shape[:-1], n_keys).sum(dim=-1)
        # Positions need their digits: bf16 has none left beyond 256.
        exact = q.dtype if q.dtype == torch.float64 else torch.float32
        with _no_autocast(q.device):
            centre = masks.predicted_centre(
                q.to(exact), lengths, weight=self.weight.to(exact), v=self.v.to(exact)
            )
        near, prior = masks.around(centre, n_keys, half_width=self.half_width)
        return Restriction(masks.both(mask, near), causal=False, prior=prior.to(q.dtype))


STRIDE = 3
"""Positions of a slot: the convolution's kernel is as long as its stride."""


class CompressedWindow(Window):
    """``compressed``: keys and values pass through a convolution of stride 3 (Liu et al. 2018).

    Its kernel is 3 positions long, each head has its own, and it mixes the numbers of that head.
    What comes out are slots; positions behind the last whole slot have none. Before the slots
    stands a learned null, so that every query sees something. Where the future is hidden, a query
    sees the slots that end where it stands, or before.
    """

    def __init__(
        self,
        d_query: int,
        half_width: int,
        n_heads: int | None = None,
        keys: KeyWidths | None = None,
    ) -> None:
        super().__init__(d_query, half_width)
        if keys is None:
            raise ConfigError(
                "window 'compressed' is for attention of several heads, whose keys it projects "
                "and joins; a decoder that looks with one head has none: choose another window"
            )
        n, d_key, d_value = keys
        self.to_key = nn.Parameter(torch.randn(n, STRIDE * d_key, d_key) * (STRIDE * d_key) ** -0.5)
        self.to_value = nn.Parameter(
            torch.randn(n, STRIDE * d_value, d_value) * (STRIDE * d_value) ** -0.5
        )
        self.null_key = nn.Parameter(torch.randn(n, 1, d_key) * d_key**-0.5)
        self.null_value = nn.Parameter(torch.zeros(n, 1, d_value))

    @override
    def forward(self, q: Tensor, n_keys: int, mask: Mask, causal: bool, first: int) -> Restriction:
        seen = masks.dense(mask)
        if seen is not None:
            seen = masks.slots_seen(seen, STRIDE, n_keys - 1)
        return Restriction(seen, causal=False, near=Slots(STRIDE, first) if causal else None)

    @override
    def by_text(self, q: Tensor, n_keys: int, first: Tensor) -> Restriction:
        t, s = masks.positions(q.shape[-2], n_keys, first, q.device)
        return Restriction(Slots(STRIDE).sees(t, s), causal=False)

    def compressed(self, tokens: KeyValues) -> KeyValues:
        """Positions from the beginning of a slot on -> the slots that are whole."""
        return KeyValues(_convolved(tokens.k, self.to_key), _convolved(tokens.v, self.to_value))

    @override
    def kept(self, tokens: KeyValues) -> CompressedKeyValues:
        slots = self.compressed(tokens)
        k, v = (
            torch.cat((null.to(x.dtype).expand(len(x), -1, -1, -1), x), dim=-2)
            for null, x in ((self.null_key, slots.k), (self.null_value, slots.v))
        )
        return with_slots(tokens, KeyValues(k, v))

    @override
    def extended(self, past: KeyValues, tokens: KeyValues) -> CompressedKeyValues:
        if not isinstance(past, CompressedKeyValues):  # nothing was read yet
            return self.kept(tokens)
        present, n = past.tokens.extended(tokens), STRIDE * (past.slots.length - 1)
        if present.length - n < STRIDE:
            return with_slots(present, past.slots)
        new = self.compressed(KeyValues(present.k[:, :, n:], present.v[:, :, n:]))
        return with_slots(present, past.slots.extended(new))

    @override
    def looked_at(self, kept: KeyValues) -> KeyValues:
        assert isinstance(kept, CompressedKeyValues)
        return kept.slots

    @override
    def places(self, keys: Tensor) -> Tensor:
        """A slot stands where its last position does, and the null right before the text."""
        return STRIDE * torch.arange(keys.shape[-2], device=keys.device) - 1

    @override
    def behind(self, prefix: KeyValues, own: KeyValues, lengths: Tensor) -> KeyValues:
        """A prefix may end inside a slot: its last positions are joined with the first own ones."""
        assert isinstance(prefix, CompressedKeyValues)
        assert isinstance(own, CompressedKeyValues)
        last = _slices(prefix.tokens, lengths // STRIDE * STRIDE, STRIDE - 1)
        rest = own.tokens.behind(last, lengths % STRIDE)
        found = self.compressed(rest).behind(prefix.slots, lengths // STRIDE + 1)
        n = 1 + (prefix.length + own.length) // STRIDE  # no text has more
        return KeyValues(found.k[:, :, :n], found.v[:, :, :n])


def _convolved(x: Tensor, weight: Tensor) -> Tensor:
    """x (B, H, S, D), weight (H, 3·D, D) -> (B, H, S // 3, D); what is left over is left out."""
    n = x.shape[-2] // STRIDE
    return x[:, :, : n * STRIDE].unflatten(2, (n, STRIDE)).flatten(3) @ weight


def _slices(tokens: KeyValues, begins: Tensor, n: int) -> KeyValues:
    """Of each text the n positions from its own of ``begins`` (B,) on: (B, H, n, D), or all S.

    What stands behind the last position of a text is of no meaning.
    """
    at = begins.unsqueeze(1) + torch.arange(min(n, tokens.length), device=begins.device)
    at = at.clamp(max=max(0, tokens.length - 1))[:, None, :, None]  # (B, 1, n, 1)

    def picked(x: Tensor) -> Tensor:
        return x.gather(2, at.expand(-1, x.shape[1], -1, x.shape[3]))

    return KeyValues(picked(tokens.k), picked(tokens.v))


def _no_autocast(device: torch.device) -> AbstractContextManager[None]:
    if torch.amp.is_autocast_available(device.type):
        return torch.autocast(device.type, enabled=False)
    return nullcontext()  # a device without storage, on which costs are counted


WINDOWS: Registry[type[Window]] = Registry("window")
WINDOWS.add("global")(Window)
WINDOWS.add("causal")(CausalWindow)
WINDOWS.add("local_m")(MonotonicWindow)
WINDOWS.add("local_p")(PredictedWindow)
WINDOWS.add("block")(BlockWindow)
WINDOWS.add("compressed")(CompressedWindow)
