"""Endless batches, epoch after epoch, in an order that can be taken up again.

The plan of an epoch depends on nothing but the examples, the seed and the epoch's number. So the
place in a stream is two numbers, and going on from it is exact.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Generic, Protocol, TypeVar

import numpy as np

from regard.core.errors import CheckpointError, DataError
from regard.data.examples import Example, Table

B = TypeVar("B")
"""A batch."""
P = TypeVar("P")
"""What a plan says about a batch."""


class Texts(Protocol):
    """Examples whose ids may differ from epoch to epoch; their numbers do not."""

    @property
    def digest(self) -> str:
        """A fingerprint of all that the ids depend on."""
        ...

    @property
    def longest(self) -> int:
        """No text of any epoch fills more positions."""
        ...

    def __len__(self) -> int: ...

    def of_epoch(self, epoch: int) -> Table:
        """The examples as an epoch sees them."""
        ...


class Stream(ABC, Generic[B, P]):
    """Batches without end; every example comes once an epoch."""

    packed: bool
    """Whether texts lie end to end."""

    def __init__(
        self, examples: Sequence[Example] | Texts, *, batch_tokens: int, seed: int
    ) -> None:
        if not len(examples):
            raise DataError("there are no examples to train on")
        self.batch_tokens = batch_tokens
        self.seed = seed
        self.epoch = 0  # of the next batch; as many are complete
        self._texts: Texts = Table.of(examples) if isinstance(examples, Sequence) else examples
        self._position = 0
        self._planned: tuple[Table, Sequence[P]] | None = None

    @property
    def n_batches(self) -> int:
        """Batches of the current epoch."""
        return len(self._current()[1])

    def next(self) -> B:
        """The next batch; after the last of an epoch, the first of the next."""
        table, plan = self._current()
        batch = self._batch(table, plan[self._position])
        self._position += 1
        if self._position == len(plan):
            self._go(self.epoch + 1, 0)
        return batch

    def state(self) -> dict[str, int | str]:
        """Where the stream is; JSON can hold it."""
        return {"epoch": self.epoch, "position": self._position, **self._made_of()}

    def restore(self, state: Mapping[str, int | str]) -> None:
        """Go on as the stream did whose state this was."""
        for name, here in self._made_of().items():
            was = state.get(name)
            if was != here and name == "data":
                raise CheckpointError(
                    "the training data is not what it was when the checkpoint was made; bring the "
                    "old data back, or start a new run"
                )
            if was != here:
                raise CheckpointError(
                    f"cannot go on in the middle of an epoch: {name} was {was} when the "
                    f"checkpoint was made and is {here} now; set it back, or start a new run"
                )
        self._go(int(state["epoch"]), int(state["position"]))

    @abstractmethod
    def _plan(self, table: Table, rng: np.random.Generator) -> Sequence[P]:
        """What goes into each batch of an epoch."""

    @abstractmethod
    def _batch(self, table: Table, part: P) -> B:
        """One batch of a plan."""

    def _go(self, epoch: int, position: int) -> None:
        self.epoch, self._position, self._planned = epoch, position, None

    def _current(self) -> tuple[Table, Sequence[P]]:
        """The examples of this epoch and their plan, made when they are first needed."""
        if self._planned is None:
            table = self._texts.of_epoch(self.epoch)
            self._planned = table, self._plan(table, self._rng(self.epoch))
        return self._planned

    def _rng(self, epoch: int) -> np.random.Generator:
        return np.random.default_rng((self.seed, epoch))

    def _made_of(self) -> dict[str, int | str]:
        """All that the plans depend on."""
        return {
            "seed": self.seed,
            "batch_tokens": self.batch_tokens,
            "packed": self.packed,
            "data": self._texts.digest,
        }
