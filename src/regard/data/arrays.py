"""Examples that are arrays: frames of sound, vectors, pictures, and what is learned of them.

A column of arrays whose first axis differs from example to example is a sequence: a batch pads it
and has its lengths beside it. A column of arrays of one shape is stacked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from hashlib import blake2b
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray

from regard.core.errors import DataError
from regard.data.batch import Batch, pad_sequences
from regard.data.batching import buckets, cut_in_order
from regard.data.examples import Ints
from regard.data.stream import Stream

Array = NDArray[np.generic]


class Arrays:
    """Named columns of equally many arrays: ``Arrays(source=frames, labels=numbers)``."""

    def __init__(self, **columns: Sequence[Array] | Array) -> None:
        self.columns: Mapping[str, Sequence[Array]] = {
            name: [np.asarray(one) for one in column] for name, column in columns.items()
        }
        sizes = {name: len(column) for name, column in self.columns.items()}
        if len({*sizes.values()}) != 1:
            raise DataError(f"columns must have equally many examples, but there are {sizes}")

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    @cached_property
    def digest(self) -> str:
        """A fingerprint of all arrays."""
        hashed = blake2b(digest_size=16)
        for name, column in self.columns.items():
            for one in column:
                hashed.update(f"{name} {one.dtype} {one.shape} ".encode() + one.tobytes())
        return hashed.hexdigest()

    def of_epoch(self, epoch: int) -> Self:
        """The examples of an epoch: these are the same in each."""
        del epoch
        return self

    @cached_property
    def lengths(self) -> Ints:
        """Positions of each example in its longest sequence; 1 where there is none."""
        found = [[len(one) for one in self.columns[name]] for name in self.sequences]
        return np.max([np.ones(len(self), np.int64), *map(np.array, found)], axis=0)

    @cached_property
    def sequences(self) -> tuple[str, ...]:
        """The columns whose first axis is a length."""
        return tuple(
            name for name, column in self.columns.items() if len({one.shape for one in column}) > 1
        )

    def batch(self, rows: Ints) -> Batch:
        """Some of the examples; a loss is averaged over rows."""
        numbers = tuple(rows.tolist())
        tensors = {}
        for name, column in self.columns.items():
            chosen = [column[i] for i in numbers]
            if name in self.sequences:
                tensors[name], tensors[f"{name}_lengths"] = pad_sequences(chosen)
            else:
                tensors[name] = torch.from_numpy(np.stack(chosen))
        return Batch(tensors, numbers, count=len(numbers))

    def stream(self, *, batch_tokens: int, seed: int) -> Stream:
        """Batches of at most ``batch_tokens`` positions, padding included, without end."""

        def plan(arrays: Arrays, rng: np.random.Generator) -> list[Ints]:
            return buckets(arrays.lengths, arrays.lengths, batch_tokens, rng)

        depends_on = {"batch_tokens": batch_tokens, "packed": False}
        return Stream(self, plan, Arrays.batch, seed=seed, depends_on=depends_on)

    def ordered(self, batch_tokens: int) -> list[Batch]:
        """All examples once, shortest first: for scoring."""
        order = np.argsort(self.lengths, kind="stable")
        return [self.batch(rows) for rows in cut_in_order(order, self.lengths, batch_tokens)]
