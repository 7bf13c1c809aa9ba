"""One batch for all tasks: named tensors of some examples.

What the tensors are called, a task and its collate function agree on: ``source`` and ``target``,
``ids`` and ``labels``. A source may be ids (B, S), frames or vectors (B, S, D), or pixels
(B, C, H, W); where its padding cannot be told from its values, ``lengths`` (B,) lie beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Batch:
    """Tensors by name, read as attributes: ``batch.source``."""

    tensors: Mapping[str, Tensor]
    numbers: tuple[int, ...]
    """Which examples these are, in the order of the rows."""
    count: int
    """What a loss is averaged over: target tokens, rows, masked words."""
    sizes: Mapping[str, int] = field(default_factory=dict)
    """Numbers that are the same in every batch of a stream, such as the longest text."""
    n_source: int = 0
    """Source tokens that are to be predicted, if any are; they are part of the count."""

    def __getattr__(self, name: str) -> Tensor:
        if name.startswith("__") or name == "tensors":  # while a copy is being filled
            raise AttributeError(name)
        if name in self.tensors:
            return self.tensors[name]
        raise AttributeError(f"this batch has no {name!r}; it has {', '.join(self.tensors)}")

    @property
    def target_in(self) -> Tensor:
        """(B, T): what a model reads; given apart where texts are packed."""
        found = self.tensors.get("target_in")
        return self.target[:, :-1] if found is None else found

    @property
    def target_out(self) -> Tensor:
        """(B, T): what a model should predict at each position; given apart where packed."""
        found = self.tensors.get("target_out")
        return self.target[:, 1:] if found is None else found

    @property
    def packed(self) -> bool:
        """Whether texts lie end to end in one row."""
        return "spans" in self.tensors and "source_bounds" in self.tensors

    def to(self, device: torch.device | str) -> Batch:
        """The same batch on a device."""
        return self._each(lambda x: x.to(device, non_blocking=True))

    def pin_memory(self) -> Batch:
        """The same batch where a GPU can fetch it by itself."""
        return self._each(Tensor.pin_memory)

    def _each(self, change: Callable[[Tensor], Tensor]) -> Batch:
        return replace(self, tensors={name: change(x) for name, x in self.tensors.items()})


def pad_sequences(sequences: Sequence[NDArray[np.generic]]) -> tuple[Tensor, Tensor]:
    """Sequences (n_i, …) of frames, vectors or ids → (B, longest, …), zeros behind, and (B,) n_i.

    >>> pad_sequences([np.ones((1, 2)), np.ones((3, 2))])[0].shape
    torch.Size([2, 3, 2])
    """
    lengths = np.array([len(one) for one in sequences], np.int64)
    first = sequences[0]
    padded = np.zeros((len(sequences), int(lengths.max()), *first.shape[1:]), first.dtype)
    for row, one in zip(padded, sequences, strict=True):
        row[: len(one)] = one
    return torch.from_numpy(padded), torch.from_numpy(lengths)
