"""Keys and values of attentions: projected once, extended step by step."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from regard.functional.packing import PackedMask

SMALLEST = 16
"""Positions for which there is room at first."""


@dataclass(slots=True, eq=False)
class Cache:
    """Two tensors with room for more positions, shared by values that see more or less of it.

    k (B, H, L, Dk), v (B, H, L, Dv); the first ``used`` positions are taken. Whoever sees exactly
    those may write further ones; whoever sees fewer would write over what another one sees.
    """

    k: Tensor
    v: Tensor
    used: int

    @classmethod
    def like(cls, k: Tensor, v: Tensor, n_rows: int, n_positions: int) -> Cache:
        """New room for at least so many positions, as many again, and nothing in it."""
        room = max(SMALLEST, 2 * n_positions)
        empty_k, empty_v = (x.new_empty(n_rows, x.shape[1], room, x.shape[3]) for x in (k, v))
        return cls(empty_k, empty_v, used=0)

    def takes(self, seen: int, k: Tensor) -> bool:
        """Whether positions k can be written after the ``seen`` ones: in free room, of its kind."""
        stays = torch.is_inference_mode_enabled() or not self.k.is_inference()
        fits = seen + k.shape[-2] <= self.k.shape[-2]
        return fits and stays and seen == self.used and k.dtype == self.k.dtype

    def write(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Enter positions after the used ones -> all of them, seen through the cache."""
        begin, end = self.used, self.used + k.shape[-2]
        self.k[:, :, begin:end] = k
        self.v[:, :, begin:end] = v
        self.used = end
        return self.k[:, :, :end], self.v[:, :, :end]


@dataclass(frozen=True, slots=True)
class KeyValues:
    """k (B, H, S, Dk) and v (B, H, S, Dv). What one sees never changes."""

    k: Tensor
    v: Tensor
    cache: Cache | None = field(default=None, repr=False, compare=False)
    """The room in which they lie, if there may be more after them."""

    @property
    def length(self) -> int:
        """S"""
        return self.k.shape[-2]

    def extended(self, other: KeyValues) -> KeyValues:
        """These positions, then the other's.

        Those are written where there is room after these, unless somebody else did so before; then
        all are copied to room of their own. With gradients nothing is ever written over.
        """
        keys, values = (self.k, other.k), (self.v, other.v)
        if torch.is_grad_enabled() and any(x.requires_grad for x in (*keys, *values)):
            return KeyValues(torch.cat(keys, dim=-2), torch.cat(values, dim=-2))
        n, cache = self.k.shape[-2], self.cache
        if cache is None or not cache.takes(n, other.k):
            n_rows = self.k.shape[0]
            cache = Cache.like(other.k, other.v, n_rows, n + other.k.shape[-2])
            cache.write(self.k, self.v)
        return KeyValues(*cache.write(other.k, other.v), cache)

    def shared_by(self, n_heads: int) -> KeyValues:
        """For so many heads: each of these is shared by n_heads / H that lie side by side."""
        n = n_heads // self.k.shape[1]
        if n == 1:
            return self
        return KeyValues(self.k.repeat_interleave(n, dim=1), self.v.repeat_interleave(n, dim=1))

    def emptied(self) -> KeyValues:
        """No positions yet, for as many rows and heads."""
        k, v = (torch.empty_like(x[:, :, :0]) for x in (self.k, self.v))
        return KeyValues(k, v)

    def select(self, rows: Tensor) -> KeyValues:
        """Rows of the batch by index, in that order; these very ones where nothing changes."""
        n = self.k.shape[0]
        # On a GPU nobody waits to find out whether all rows stay.
        if rows.device.type == "cpu" and len(rows) == n and torch.equal(rows, torch.arange(n)):
            return self
        return KeyValues(self.k.index_select(0, rows), self.v.index_select(0, rows))

    def behind(self, other: KeyValues, lengths: Tensor) -> KeyValues:
        """The first ``lengths`` (B,) positions of the other's texts, and these right behind them.

        Texts of the other end with positions that do not count, each with as many as it has to
        spare. As many are left over here, behind all.
        """
        n = other.length
        at = torch.arange(n + self.length, device=lengths.device)
        moved = at + (n - lengths).unsqueeze(1)  # of these, where both lie one after the other
        at = torch.where(at < lengths.unsqueeze(1), at, moved.clamp(max=n + self.length - 1))

        def picked(a: Tensor, b: Tensor) -> Tensor:
            both = torch.cat((a, b), dim=-2)
            return both.gather(2, at[:, None, :, None].expand(*both.shape))

        return KeyValues(picked(other.k, self.k), picked(other.v, self.v))


@dataclass(frozen=True, slots=True)
class CompressedKeyValues(KeyValues):
    """The same of a compressed text: one a position, and of slots that stand for several each."""

    slots: KeyValues = field(kw_only=True)
    """(B, H, 1 + S // stride, D): the null, then one a slot."""

    @property
    def tokens(self) -> KeyValues:
        """One a position, alone."""
        return KeyValues(self.k, self.v, self.cache)

    def select(self, rows: Tensor) -> CompressedKeyValues:
        """Rows of the batch by index, in that order."""
        return with_slots(self.tokens.select(rows), self.slots.select(rows))


def with_slots(tokens: KeyValues, slots: KeyValues) -> CompressedKeyValues:
    """Keys and values of positions, with those of their slots."""
    return CompressedKeyValues(tokens.k, tokens.v, tokens.cache, slots=slots)


@dataclass(frozen=True, slots=True)
class DecoderState:
    """What a Transformer's decoder has read so far: each layer's keys and values of it."""

    layers: tuple[KeyValues, ...]

    @property
    def length(self) -> int:
        """Tokens read so far."""
        return self.layers[0].length

    def select(self, rows: Tensor) -> DecoderState:
        """Rows of the batch by index, in that order."""
        return DecoderState(tuple(layer.select(rows) for layer in self.layers))


@dataclass(frozen=True, slots=True)
class SourceMemory:
    """What a decoder looks at: each layer's keys and values of the source, and its mask."""

    layers: tuple[KeyValues, ...]
    mask: Tensor | PackedMask
    """(B, 1, 1, S), or the texts of a packed row."""

    def select(self, rows: Tensor) -> SourceMemory:
        """Rows of the batch by index, in that order."""
        assert isinstance(self.mask, Tensor), "a packed row is trained on, not decoded from"
        layers = tuple(layer.select(rows) for layer in self.layers)
        return SourceMemory(layers, self.mask.index_select(0, rows))


@dataclass(frozen=True, slots=True)
class PrefixMemory:
    """What every text of a batch begins with: each layer's keys and values, and how many count."""

    layers: tuple[KeyValues, ...]
    lengths: Tensor
    """(B,): positions of each text; what lies behind them does not count."""

    def select(self, rows: Tensor) -> PrefixMemory:
        """Rows of the batch by index, in that order."""
        layers = tuple(layer.select(rows) for layer in self.layers)
        return PrefixMemory(layers, self.lengths.index_select(0, rows))
