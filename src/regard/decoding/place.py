"""Where texts are written on: in a model's own state, or in a room that stays where it is."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol, runtime_checkable

from torch import Tensor


class Continuer(Protocol):
    """What is needed of a model, and all that is."""

    def start(self, n_rows: int) -> Any:
        """The state (``Rows``) of so many texts of which nothing was read."""
        ...

    def extend(self, ids: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Ids (B, T) after ``state`` -> logits (B, V) of the next, and the new state."""
        ...


class Place(Protocol):
    """Where some texts of one length are written; rows from 0 on are in use."""

    ahead: bool
    """Whether a step is only begun when it is asked for: then one had better ask early."""

    def read(self, ids: Tensor) -> Tensor:
        """Begin with these ids (B, T) -> logits (B, V) of the next token."""
        ...

    def step(self, ids: Tensor) -> Tensor:
        """The texts' next ids (R,) -> logits (R, V) after them, good until the next step."""
        ...

    def move(self, rows: Tensor) -> None:
        """Only these rows go on, in their order, from row 0 on."""
        ...


@runtime_checkable
class InPlace(Protocol):
    """A continuer that can also write in place, so that a GPU needs no host between steps."""

    longest: int | None
    """The most tokens that a text may have."""

    def room(self, n_rows: int, n_read: int, n_new: int) -> AbstractContextManager[Place]:
        """Room for so many texts, of so many tokens to read and to write, until it is given back.

        Each who asks gets another room.
        """
        ...

    def most_rows(self, n_read: int, n_new: int) -> int:
        """Texts of so many tokens that may be written at once."""
        ...


class OwnState:
    """A place for any continuer: its state."""

    ahead = False

    def __init__(self, model: Continuer) -> None:
        self.model = model
        self.state: Any = None

    def read(self, ids: Tensor) -> Tensor:
        """As ``Place.read``."""
        logits, self.state = self.model.extend(ids, self.model.start(len(ids)))
        return logits

    def step(self, ids: Tensor) -> Tensor:
        """As ``Place.step``."""
        logits, self.state = self.model.extend(ids.unsqueeze(1), self.state)
        return logits

    def move(self, rows: Tensor) -> None:
        """As ``Place.move``."""
        self.state = self.state.select(rows)


def place_for(
    model: Continuer, n_rows: int, n_read: int, n_new: int
) -> AbstractContextManager[Place]:
    """A room where the model has one that is large enough, else its state."""
    if isinstance(model, InPlace) and (
        model.longest is None or n_read + n_new - 1 <= model.longest
    ):
        return model.room(n_rows, n_read, n_new)
    return nullcontext(OwnState(model))
