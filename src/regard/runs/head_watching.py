"""The heads of a run, watched on many sentences at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from regard.data.batches import Batch, fixed_batches
from regard.data.examples import encode_pairs
from regard.data.pairs import Pair
from regard.inspection.agreement import Divergences, divergences
from regard.inspection.capture import watch
from regard.inspection.heads import Array, Ids, Tally, tally
from regard.runs.run import Run
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


@dataclass(frozen=True, slots=True)
class _Part:
    """What one batch tells of one name."""

    heads: tuple[tuple[int, int], ...]
    tally: Tally
    divergences: Divergences

    def __add__(self, other: _Part) -> _Part:
        return _Part(self.heads, self.tally + other.tally, self.divergences + other.divergences)


def groups(run: Run, pairs: Sequence[Pair]) -> list[Group]:
    """Every attention of the model, teacher forced on the pairs; none where it has none."""
    examples = encode_pairs(pairs, run.tokenizers.source, run.tokenizers.target)
    parts: dict[str, _Part] = {}
    for batch in fixed_batches(examples, BATCH_TOKENS):
        for name, layers in _weights(run, batch).items():
            part = _part(name, layers, batch)
            parts[name] = parts[name] + part if name in parts else part
    return [
        Group(name, part.heads, part.tally.means(), part.divergences.mean())
        for name, part in parts.items()
    ]


def _weights(run: Run, batch: Batch) -> dict[str, dict[int, Weights]]:
    """Name -> layer -> weights (B, H, T, S)."""
    batch = batch.to(run.device)
    found: dict[str, dict[int, Weights]] = {}
    with torch.no_grad(), watch(run.model) as views:
        run.model(batch.source, batch.target_in)
        for (name, layer), view in views.items():
            found.setdefault(name, {})[layer] = view.weights().float().cpu().numpy()
    return found


def _part(name: str, layers: dict[int, Weights], batch: Batch) -> _Part:
    heads = tuple((layer, h) for layer in sorted(layers) for h in range(layers[layer].shape[1]))
    weights: NDArray[Any] = np.concatenate([layers[layer] for layer in sorted(layers)], axis=1)
    rows, columns = _ids(name, batch)
    return _Part(
        heads,
        tally(weights, rows, columns, same=name.endswith(".self")),
        divergences(weights, rows, columns),
    )


def _ids(name: str, batch: Batch) -> tuple[Ids, Ids]:
    """Whose rows and columns these are. In cross-attention a row is the token that it writes."""
    source = batch.source.numpy()
    if name == "encoder.self":
        return source, source
    if name == "decoder.self":
        read = batch.target_in.numpy()
        read = np.where(read == END_ID, PAD_ID, read)  # behind a shorter sentence; nobody reads it
        return read, read
    return batch.target_out.numpy(), source
