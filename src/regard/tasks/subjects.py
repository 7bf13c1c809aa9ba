"""What heads are measured on: examples, how a model reads them, and how it is judged on them."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from regard.inspection.capture import POOL
from regard.inspection.heads import Ids
from regard.text.specials import BEGIN_ID, END_ID, PAD_ID, UNKNOWN_ID, SpecialIds


class Reading(NamedTuple):
    """A batch as a model reads it."""

    inputs: tuple[Tensor, ...]
    ids: Callable[[str], tuple[Ids, Ids]]
    """Name of an attention -> ids of its rows (B, T) and columns (B, S), with our special ids."""


Scorer = Callable[[], dict[str, float]]
"""The scores of the model as it is when asked, by name."""


@dataclass(frozen=True, slots=True)
class Subject:
    """Examples, how a model reads them, and how it is judged on them."""

    model: nn.Module
    device: torch.device
    readings: Callable[[], Iterator[Reading]]
    judge: Scorer
    split: str
    n: int
    """Examples."""
    notes: tuple[str, ...] = ()
    """What a user should know about the data."""
    known: Callable[[], Mapping[str, Mapping[Hashable, float]]] = dict
    """What the data knows of heads: name of a measure -> label of a head -> its value."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What else is told of the measuring."""


WEIGHTS = 2**24
"""Of all heads together in one batch; measuring takes about 40 bytes for each."""
Numbered = tuple[int, Sequence[int]]
"""Which of the texts, and its ids."""


class Attending(Protocol):
    """The configuration of a model with self-attention."""

    @property
    def n_self_heads(self) -> int:
        """Heads of all layers together."""
        ...


def batched(texts: Sequence[Sequence[int]], config: Attending) -> Iterator[list[Numbered]]:
    """Texts with their numbers, longest first; what is too long to be watched is cut."""
    n_heads = config.n_self_heads
    most = math.isqrt(WEIGHTS // n_heads) if n_heads else None
    left = sorted(((i, ids[:most]) for i, ids in enumerate(texts)), key=lambda one: -len(one[1]))
    while left:
        longest = len(left[0][1])
        n_rows = max(1, WEIGHTS // (n_heads * longest**2 or longest))
        yield left[:n_rows]
        left = left[n_rows:]


def padded(rows: Sequence[Sequence[int]], n: int, fill: int) -> Tensor:
    """Rows of ids -> (B, n), filled up at their ends."""
    return torch.tensor([[*row, *[fill] * (n - len(row))] for row in rows])


def special_ids(some: Sequence[Numbered], marks: SpecialIds) -> Callable[[str], tuple[Ids, Ids]]:
    """Rows and columns are the same tokens, told by our ids of special tokens; others are words.

    Padding is told by where it stands: its id may mean something else too. What pools a text has
    one row.
    """
    ours = {marks.begin: BEGIN_ID, marks.end: END_ID}
    known = [[ours.get(number, UNKNOWN_ID) for number in ids] for _, ids in some]
    ids = padded(known, len(known[0]), PAD_ID).numpy()
    one = np.full_like(ids[:, :1], UNKNOWN_ID)
    return lambda name: (one if name == POOL else ids, ids)
