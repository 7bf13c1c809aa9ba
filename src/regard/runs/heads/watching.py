"""The heads of a model, watched on many texts at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from regard.data.batch import Batch
from regard.data.examples import encode_pairs
from regard.data.pair_batches import ordered_batches
from regard.data.pairs import Pair
from regard.inspection.capture import POOL, watch
from regard.inspection.heads import Array, Divergences, HeadTally, Ids, divergences, tally
from regard.runs.kinds.translator import Run
from regard.text.specials import END_ID, PAD_ID

BATCH_TOKENS = 2048
"""Weights take as much room as there are heads × tokens × the length of a sentence."""

Weights = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Group:
    """All heads of one name, such as ``decoder.cross``: rows and columns are alike for them."""

    name: str
    heads: tuple[tuple[int, int], ...]
    """(layer, head) of each."""
    measures: dict[str, list[float | None]]
    """Measure -> one value a head."""
    distances: Array
    """(heads, heads)"""


class Reading(NamedTuple):
    """A batch as a model reads it."""

    inputs: tuple[Tensor, ...]
    ids: Callable[[str], tuple[Ids, Ids]]
    """Name of an attention -> ids of its rows (B, T) and columns (B, S), with our special ids."""


@dataclass(frozen=True, slots=True)
class _Part:
    """What one batch tells of one name."""

    heads: tuple[tuple[int, int], ...]
    tally: HeadTally
    divergences: Divergences

    def __add__(self, other: _Part) -> _Part:
        return _Part(self.heads, self.tally + other.tally, self.divergences + other.divergences)


def groups(model: nn.Module, readings: Iterable[Reading], device: torch.device) -> list[Group]:
    """Every attention of the model while it reads; none where it has none."""
    parts: dict[str, _Part] = {}
    for reading in readings:
        for name, layers in _weights(model, reading, device).items():
            part = _part(name, layers, *reading.ids(name))
            parts[name] = parts[name] + part if name in parts else part
    return [
        Group(name, part.heads, _means(name, part.tally), part.divergences.mean())
        for name, part in parts.items()
    ]


def pair_readings(run: Run, pairs: Sequence[Pair]) -> Iterator[Reading]:
    """Pairs as a translator reads them, teacher forced."""
    examples = encode_pairs(pairs, run.tokenizers.source, run.tokenizers.target)
    for batch in ordered_batches(examples, BATCH_TOKENS):
        yield Reading((batch.source, batch.target_in), partial(_ids, batch))


def _weights(
    model: nn.Module, reading: Reading, device: torch.device
) -> dict[str, dict[int, Weights]]:
    """Name -> layer -> weights (B, H, T, S)."""
    found: dict[str, dict[int, Weights]] = {}
    with torch.no_grad(), watch(model) as views:
        model(*(one.to(device) for one in reading.inputs))
        for (name, layer), view in views.items():
            found.setdefault(name, {})[layer] = view.weights().float().cpu().numpy()
    return found


def _part(name: str, layers: dict[int, Weights], rows: Ids, columns: Ids) -> _Part:
    heads = tuple((layer, h) for layer in sorted(layers) for h in range(layers[layer].shape[1]))
    weights: NDArray[Any] = np.concatenate([layers[layer] for layer in sorted(layers)], axis=1)
    return _Part(
        heads,
        tally(weights, rows, columns, same=name.endswith(".self")),
        divergences(weights, rows, columns),
    )


def _means(name: str, tally: HeadTally) -> dict[str, list[float | None]]:
    """Of each measure; what pools a text stands nowhere, so nothing is far from it."""
    means = tally.means()
    return {**means, "distance": [None]} if name == POOL else means


def _ids(batch: Batch, name: str) -> tuple[Ids, Ids]:
    """Whose rows and columns these are. In cross-attention a row is the token that it writes."""
    source = batch.source.numpy()
    if name == "encoder.self":
        return source, source
    if name == "decoder.self":
        read = batch.target_in.numpy()
        read = np.where(read == END_ID, PAD_ID, read)  # behind a shorter sentence; nobody reads it
        return read, read
    return batch.target_out.numpy(), source
