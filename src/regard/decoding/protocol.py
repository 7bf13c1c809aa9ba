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

from typing import Any, Protocol, Self

from torch import Tensor


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
