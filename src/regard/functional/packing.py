"""Sequences that lie end to end in one row, without padding between them.

A packed batch is a batch of one long row. What keeps its sequences apart is a mask: a token sees
its own sequence only. Written out that mask would be N × N, so it stays what it is here, a few
integers a token, and kernels that know it touch nothing else.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

BLOCKS = (64, 128)
"""Tokens that a group of texts may have."""


class PackedMask(NamedTuple):
    """Which queries and keys belong together. A mask, not written out."""

    queries: Tensor
    """(T,) int32: the text of each query; of no text if negative."""
    keys: Tensor
    """(S,) int32"""
    spans: Tensor
    """(G, 4) int32: first query, end, first key, end of groups of whole texts, none of more than
    ``block`` tokens on either side; (0, 0, 0, 0) where there is no group. Each text is in one."""
    block: int
    """64 or 128; 0 where texts are too long to be grouped."""
    query_bounds: Tensor
    """(n + 1,) int32: text i fills bounds[i]:bounds[i + 1]."""
    key_bounds: Tensor
    longest: int
    """No text has more tokens, on either side."""

    def dense(self) -> Tensor:
        """(T, S) boolean, True = may attend."""
        mine = self.queries.unsqueeze(1)
        return (mine == self.keys) & (mine >= 0)


class PackedSide(NamedTuple):
    """Where the tokens of one side belong."""

    positions: Tensor
    """(N,) int64: position within its text."""
    texts: Tensor
    """(N,) int32: which text; negative beyond the last. Sides use different negative numbers."""
    bounds: Tensor
    """(n + 1,) int32"""


class Packing(NamedTuple):
    """How a packed batch lies: sources end to end, targets end to end."""

    source: PackedSide
    target: PackedSide
    spans: Tensor
    """(G, 4) int32: first source token, end, first target token, end."""
    block: int
    longest: int

    def among_sources(self) -> PackedMask:
        """What a source token may see of the sources."""
        return self._texts(self.source, self.source, (0, 1, 0, 1))

    def among_targets(self) -> PackedMask:
        """What a target token may see of the targets, were the future not hidden."""
        return self._texts(self.target, self.target, (2, 3, 2, 3))

    def across(self) -> PackedMask:
        """What a target token may see of the sources."""
        return self._texts(self.target, self.source, (2, 3, 0, 1))

    def _texts(self, queries: PackedSide, keys: PackedSide, columns: tuple[int, ...]) -> PackedMask:
        return PackedMask(
            queries.texts,
            keys.texts,
            torch.stack([self.spans[:, column] for column in columns], dim=1),
            self.block,
            queries.bounds,
            keys.bounds,
            self.longest,
        )


def packed_rows(real: Tensor) -> PackedMask | None:
    """The texts of a padded batch, real (B, S) where there is no padding, its rows end to end.

    None where they are too long for a group. Nothing depends on a value, so nothing waits.
    """
    B, S = real.shape
    block = next((size for size in BLOCKS if size >= S), None)
    if block is None:
        return None
    step, device = block // S * S, real.device
    texts = torch.arange(B, dtype=torch.int32, device=device).unsqueeze(1)
    begins = torch.arange(0, B * S, step, dtype=torch.int32, device=device)
    ends = (begins + step).clamp(max=B * S)
    bounds = torch.arange(0, B * S + 1, S, dtype=torch.int32, device=device)
    return PackedMask(
        queries=torch.where(real, texts, -1).flatten(),
        keys=torch.where(real, texts, -2).flatten(),
        spans=torch.stack((begins, ends, begins, ends), dim=1),
        block=block,
        query_bounds=bounds,
        key_bounds=bounds,
        longest=S,
    )
