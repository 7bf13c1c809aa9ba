"""How order is told: absolute positions join the tokens, relative ones are told inside attention.

``POSITIONS`` holds both kinds. A model that is told a name gives its embedding what
``make_positions`` makes of it and its self-attentions what ``make_relative`` does.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from typing_extensions import override

from regard.core.errors import ConfigError, ShapeError
from regard.core.registry import Registry
from regard.functional import masks
from regard.functional.positions import BASE, Alibi, Bias, alibi_slopes, rotated, sinusoid

Join = Literal["add", "concat"]


class Positions(nn.Module):
    """The positions ``none``: nothing is said of order. The others derive from it.

    Codes of width ``d_code`` join tokens of width ``d_tokens``; ``d_out`` is the width afterwards,
    which the next projection has to take.
    """

    def __init__(self, d_tokens: int, *, join: Join, max_len: int, d_code: int) -> None:
        super().__init__()
        self.join = join
        self.d_out = d_tokens

    def forward(self, x: Tensor, first: int | Tensor = 0) -> Tensor:
        """x (B, T, D), whose first token stands at position ``first`` -> (B, T, d_out).

        Where tokens do not follow each other, ``first`` holds all positions, (T,) or (B, T).
        """
        return x

    def _joined(self, x: Tensor, codes: Tensor) -> Tensor:
        if self.join == "add":
            return x + codes
        return torch.cat((x, codes.expand(*x.shape[:-1], -1)), dim=-1)


class SinusoidalPositions(Positions):
    """``sinusoidal``: defined at any position, also beyond the table; nothing to learn."""

    table: Tensor

    def __init__(self, d_tokens: int, *, join: Join, max_len: int, d_code: int) -> None:
        super().__init__(d_tokens, join=join, max_len=max_len, d_code=d_code)
        self.d_out = d_tokens if join == "add" else d_tokens + d_code
        table = sinusoid(torch.arange(max_len), d_code)
        self.register_buffer("table", table, persistent=False)

    @override
    def forward(self, x: Tensor, first: int | Tensor = 0) -> Tensor:
        if isinstance(first, Tensor):
            return self._joined(x, self.table[first].to(x.dtype))
        end = first + x.shape[1]
        if end <= self.table.shape[0]:
            codes = self.table[first:end]
        else:
            codes = sinusoid(torch.arange(first, end, device=x.device), self.table.shape[1])
        return self._joined(x, codes.to(x.dtype))


class LearnedPositions(Positions):
    """``learned``: a vector for each position up to ``max_len``, and a refusal beyond."""

    def __init__(self, d_tokens: int, *, join: Join, max_len: int, d_code: int) -> None:
        super().__init__(d_tokens, join=join, max_len=max_len, d_code=d_code)
        self.d_out = d_tokens if join == "add" else d_tokens + d_code
        self.table = nn.Parameter(torch.randn(max_len, d_code) * d_code**-0.5)

    @override
    def forward(self, x: Tensor, first: int | Tensor = 0) -> Tensor:
        if isinstance(first, Tensor):
            return self._joined(x, self.table[first])
        end = first + x.shape[1]
        if end > self.table.shape[0]:
            raise ShapeError(
                f"learned positions know {self.table.shape[0]} places, but the text has {end} "
                "tokens; train with a larger model.max_len, or use positions: sinusoidal"
            )
        return self._joined(x, self.table[first:end])


class IndexPositions(Positions):
    """``index``: the number t itself, appended; the width becomes D + 1."""

    def __init__(self, d_tokens: int, *, join: Join, max_len: int, d_code: int) -> None:
        super().__init__(d_tokens, join="concat", max_len=max_len, d_code=1)
        self.d_out = d_tokens + 1

    @override
    def forward(self, x: Tensor, first: int | Tensor = 0) -> Tensor:
        if not isinstance(first, Tensor):
            first = torch.arange(first, first + x.shape[1], device=x.device)
        return self._joined(x, first.to(x.dtype).unsqueeze(-1))


class Relative(NamedTuple):
    """Queries and keys that know their positions, or a bias that does."""

    q: Tensor
    """(B, H, T, Dq)"""
    k: Tensor
    """(B, H, S, Dk)"""
    bias: Bias = None


class RelativePositions(nn.Module):
    """Positions inside self-attention, which says how far apart two tokens stand.

    This one says nothing; the others derive from it.
    """

    def __init__(self, n_heads: int, base: float = BASE) -> None:
        super().__init__()

    def forward(
        self, q: Tensor, k: Tensor, first: int | Tensor, places: Tensor | None = None
    ) -> Relative:
        """q (B, H, T, Dq) from position ``first`` on, k (B, H, S, Dk) at ``places`` (S,).

        Where texts do not begin together, ``first`` (B,) has a position a text. Without places,
        keys stand one a position, from 0 on.
        """
        return Relative(q, k)


class AlibiPositions(RelativePositions):
    """``alibi``: the farther away, the lower the score (Press et al. 2022). Nothing to learn."""

    slopes: Tensor

    def __init__(self, n_heads: int, base: float = BASE) -> None:
        super().__init__(n_heads)
        self.register_buffer("slopes", alibi_slopes(n_heads), persistent=False)

    @override
    def forward(
        self, q: Tensor, k: Tensor, first: int | Tensor, places: Tensor | None = None
    ) -> Relative:
        assert places is None, "slopes are told to keys that stand one a position"
        if isinstance(first, Tensor):
            t, s = masks.positions(q.shape[-2], k.shape[-2], first, q.device)
            return Relative(q, k, -self.slopes[:, None, None] * (t - s).abs())  # (B, H, T, S)
        return Relative(q, k, Alibi(self.slopes, first))


class RotaryPositions(RelativePositions):
    """``rotary``: pairs of numbers are turned by angles that grow with the position (Su 2021).

    An inner product of two that were turned depends on the difference of their positions alone.
    The slowest pair turns once in about 2π·``base`` positions.
    """

    def __init__(self, n_heads: int, base: float = BASE) -> None:
        super().__init__(n_heads)
        self.base = base

    @override
    def forward(
        self, q: Tensor, k: Tensor, first: int | Tensor, places: Tensor | None = None
    ) -> Relative:
        if q.shape[-1] % 2 or k.shape[-1] % 2:
            raise ShapeError(
                f"rotary positions turn pairs of numbers, but heads are {q.shape[-1]} wide; "
                "choose d_model and n_heads so that they are even"
            )
        queries, keys = (torch.arange(x.shape[-2], device=x.device) for x in (q, k))
        queries = queries + (first[:, None, None] if isinstance(first, Tensor) else first)
        keys = keys if places is None else places
        return Relative(rotated(q, queries, self.base), rotated(k, keys, self.base))


class RelativeOnly(Positions):
    """What the embedding has of relative positions: nothing is joined."""


POSITIONS: Registry[type[Positions] | type[RelativePositions]] = Registry("positions")
POSITIONS.add("sinusoidal")(SinusoidalPositions)
POSITIONS.add("learned")(LearnedPositions)
POSITIONS.add("index")(IndexPositions)
POSITIONS.add("none")(Positions)
POSITIONS.add("alibi")(AlibiPositions)
POSITIONS.add("rotary")(RotaryPositions)


def is_relative(name: str) -> bool:
    """Whether positions of this name are told inside attention."""
    return issubclass(POSITIONS[name], RelativePositions)


def make_positions(
    name: str, d_tokens: int, *, join: Join, max_len: int, d_code: int | None = None
) -> Positions:
    """What an embedding joins its tokens with, as wide as they are unless ``d_code`` is given."""
    if name == "index" and join == "add":
        raise ConfigError("positions 'index' appends a number and has no join 'add'; use 'concat'")
    kind = POSITIONS[name]
    if issubclass(kind, RelativePositions):
        kind = RelativeOnly
    return kind(d_tokens, join=join, max_len=max_len, d_code=d_code or d_tokens)


def make_relative(name: str, n_heads: int, base: float = BASE) -> RelativePositions:
    """What a self-attention knows of positions: ``none``, or relative ones."""
    kind = POSITIONS[name]
    if name == "none":
        return RelativePositions(n_heads, base)
    if issubclass(kind, RelativePositions):
        return kind(n_heads, base)
    known = ", ".join(["none", *filter(is_relative, POSITIONS)])
    raise ConfigError(f"attention is told positions {known}; {name!r} join the tokens")
