"""Joining tokens with their positions."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from regard.core.errors import ConfigError, ShapeError
from regard.core.registry import Registry
from regard.functional.positions import sinusoid

Join = Literal["add", "concat"]


class Positions(nn.Module):
    """The positions ``none``: nothing is said of order. The others derive from it.

    ``d_out`` is the width after joining, which the next projection has to take.
    """

    def __init__(self, d_model: int, *, join: Join, max_len: int) -> None:
        super().__init__()
        self.join = join
        self.d_out = d_model

    def forward(self, x: Tensor, first: int | Tensor = 0) -> Tensor:
        """x (B, T, D), whose first token stands at position ``first`` -> (B, T, d_out).

        Where tokens do not follow each other, ``first`` are the places of all, (T,) or (B, T).
        """
        return x

    def _joined(self, x: Tensor, codes: Tensor) -> Tensor:
        if self.join == "add":
            return x + codes
        return torch.cat((x, codes.expand(*x.shape[:-1], -1)), dim=-1)


class SinusoidalPositions(Positions):
    """``sinusoidal``: defined at any position, nothing to learn."""

    table: Tensor

    def __init__(self, d_model: int, *, join: Join, max_len: int) -> None:
        super().__init__(d_model, join=join, max_len=max_len)
        self.d_out = d_model if join == "add" else 2 * d_model
        table = sinusoid(torch.arange(max_len), d_model)
        self.register_buffer("table", table, persistent=False)

    def forward(self, x: Tensor, first: int | Tensor = 0) -> Tensor:
        """As ``Positions.forward``; beyond the table the formula goes on."""
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

    def __init__(self, d_model: int, *, join: Join, max_len: int) -> None:
        super().__init__(d_model, join=join, max_len=max_len)
        self.d_out = d_model if join == "add" else 2 * d_model
        self.table = nn.Parameter(torch.randn(max_len, d_model) * d_model**-0.5)

    def forward(self, x: Tensor, first: int | Tensor = 0) -> Tensor:
        """As ``Positions.forward``."""
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

    def __init__(self, d_model: int, *, join: Join, max_len: int) -> None:
        super().__init__(d_model, join="concat", max_len=max_len)
        self.d_out = d_model + 1

    def forward(self, x: Tensor, first: int | Tensor = 0) -> Tensor:
        """As ``Positions.forward``."""
        if not isinstance(first, Tensor):
            first = torch.arange(first, first + x.shape[1], device=x.device)
        return self._joined(x, first.to(x.dtype).unsqueeze(-1))


class PositionsOfAttention(Positions):
    """``alibi`` and ``rotary``: nothing is said here, for attention itself knows (``places``)."""


POSITIONS: Registry[type[Positions]] = Registry("positions")
POSITIONS.add("sinusoidal")(SinusoidalPositions)
POSITIONS.add("learned")(LearnedPositions)
POSITIONS.add("index")(IndexPositions)
POSITIONS.add("none")(Positions)
POSITIONS.add("alibi")(PositionsOfAttention)
POSITIONS.add("rotary")(PositionsOfAttention)


def make_positions(name: str, d_model: int, *, join: Join, max_len: int) -> Positions:
    """Positions by name; ``index`` can only be appended."""
    if name == "index" and join == "add":
        raise ConfigError("positions 'index' appends a number and has no join 'add'; use 'concat'")
    return POSITIONS[name](d_model, join=join, max_len=max_len)
