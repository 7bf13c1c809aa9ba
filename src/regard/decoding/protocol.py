"""What decoding needs of a model, and all it needs.

One law holds for every model that speaks this protocol and is tested for each: stepping through a
target gives, position by position, the logits of ``forward``.

A search handles two values of the model. The *memory* is what the source was read into; it never
changes. The *state* is what the model remembers of the target so far. Both have one row a
hypothesis and are only ever touched through ``select``. A beam search reorders the state at every
step and the memory only when sentences leave the batch, so whatever depends on the source alone
(such as the keys and values that the source is projected to) belongs into the memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import Any, Protocol, Self, runtime_checkable

from torch import Tensor

from regard.kernels.steps import Best


class Rows(Protocol):
    """A value with one row a hypothesis: a memory, or a decoder's state."""

    def select(self, rows: Tensor) -> Self:
        """The rows (N,) by index, in that order; an index may repeat. Returns a new value."""
        ...


class Generator(Protocol):
    """A model that writes a target, one token at a time or all at once.

    Searches neither switch it to evaluation nor back: hand over a model without dropout.
    """

    def __call__(self, source: Tensor, target: Tensor) -> Tensor:
        """Teacher forced: source ids (B, S) and target ids (B, T) -> logits (B, T, V).

        The target begins with the begin token; logits at t are about token t + 1.
        """
        ...

    def encode(self, source: Tensor) -> Any:
        """Source ids (B, S) -> memory (``Rows``), computed once a source."""
        ...

    def start(self, memory: Any) -> Any:
        """The state (``Rows``) before the first target token."""
        ...

    def step(self, ids: Tensor, memory: Any, state: Any) -> tuple[Tensor, Any]:
        """Last target ids (B,) -> logits (B, V) for the next, and the new state.

        The old state stays as it was, or is never used again: a search keeps only the new one.
        """
        ...


class Room(Protocol):
    """Where a ``Static`` model writes up to P hypotheses, K a sentence; those from 0 on are in use.

    A search sets ids, places and owners; a step enters what it has computed.
    """

    n_rows: int
    """P"""
    n_steps: int
    """L: tokens that a hypothesis may have."""
    n_tokens: int
    """Of all sources together, padding included."""
    ids: Tensor
    """(P,) int64: the token that each row reads next."""
    places: Tensor
    """(P,) int32: where it stands; the same for all rows in use."""
    owners: Tensor
    """(P,) int32: which of the sources that were read the row looks at."""

    def read(self, source: Tensor) -> None:
        """Remember the sources (B, S), padded at their ends; nothing is written yet."""
        ...

    def step(self, n_rows: int) -> Tensor:
        """The next token's logits (R, V) of the first R rows; a GPU is not waited for."""
        ...

    def best(self, n_rows: int, n: int, *, n_hidden: int) -> Best:
        """The n most probable of these, as ``kernels.steps.best_tokens``."""
        ...

    def reorder(self, parents: Tensor) -> None:
        """Hypothesis k of sentence b goes on from that at parents[b, k] of the same sentence."""
        ...

    def move(self, rows: Tensor) -> None:
        """Only these rows go on, with their ids, places and owners, from row 0 on."""
        ...

    def changes(self) -> Sequence[Tensor]:
        """All that a step or a reordering changes and later steps depend on."""
        ...


@runtime_checkable
class Static(Protocol):
    """A generator that can also write in place, so that a GPU needs no host between steps."""

    n_vocab: int
    longest: int | None
    """The most tokens a target may have."""
    lock: Lock
    """Held while somebody writes: there is one room."""
    kept: dict[object, Any]
    """What searches keep here for the next time."""

    def room(self, n_rows: int, n_steps: int, n_tokens: int, n_beams: int) -> Room:
        """A new room."""
        ...
