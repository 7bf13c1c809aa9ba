"""Batches of pictures: rows that each show a picture, with what is learned of it beside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import torch

from regard.data.augmentation import Augmentation, Draws
from regard.data.batch import Batch, pad_sequences
from regard.data.examples import Ints
from regard.data.picture_records import PictureRecord
from regard.data.pictures import Picture, Pixels, all_pixels, stored_pixels
from regard.data.records import Fit, Resample
from regard.data.stream import Stream

DRAWN = "drawn_"
"""How the names of tensors begin that say how pictures are changed."""
Column = Any
"""An array (N, …) of which rows are stacked; N arrays of different lengths, which are padded; or N
tuples of such arrays, several a row."""


@dataclass(frozen=True, eq=False)
class PictureTable:
    """Pixels (P, S, S, 3), and rows of which each shows one of these pictures."""

    pixels: Pixels
    pictures: Ints
    """(N,): which picture a row shows."""
    columns: Mapping[str, Column] = field(default_factory=dict)
    """What is learned of a row, by the name of its tensor; a list is of sequences, whose lengths a
    batch has as ``NAME_lengths``. Where a row has several, ``NAME_of`` (R,) says for each of them
    to which row of the batch it belongs."""
    counts: str = ""
    """The sequence of which all positions but the first are learned; empty: rows are counted."""
    shared: bool = False
    """Whether a batch has each of its pictures once, and all rows that show it: ``pictures`` (B,)
    then says which of them a row shows."""

    def __len__(self) -> int:
        return len(self.pictures)

    @cached_property
    def digest(self) -> str:
        """A fingerprint of all rows."""
        hashed = blake2b(np.ascontiguousarray(self.pixels).data, digest_size=16)
        hashed.update(self.pictures.tobytes())
        for name, column in self.columns.items():
            hashed.update(name.encode())
            for one in column if isinstance(column, list) else [column]:
                for part in one if isinstance(one, tuple) else (one,):
                    hashed.update(f"{part.shape} ".encode() + part.tobytes())
                hashed.update(b";")
        return hashed.hexdigest()

    def of_epoch(self, epoch: int) -> PictureTable:
        """The same rows in every epoch."""
        del epoch
        return self

    def batch(self, rows: Ints) -> Batch:
        """Some rows: ``pixels`` (B, 3, S, S) of bytes, and the columns.

        Where a row has several texts, all those of the batch come longest first.
        """
        shown, which = self.pictures[rows], None
        if self.shared:
            shown, which = np.unique(shown, return_inverse=True)
        found = torch.from_numpy(self.pixels[shown])
        tensors = {"pixels": found.permute(0, 3, 1, 2)}
        if which is not None:
            tensors["pictures"] = torch.from_numpy(which)
        for name, column in self.columns.items():
            if isinstance(column, list):
                some = [column[i] for i in rows]
                if isinstance(some[0], tuple):
                    of_row = [(i, one) for i, several in enumerate(some) for one in several]
                    of_row.sort(key=lambda pair: -len(pair[1]))
                    tensors[f"{name}_of"] = torch.tensor([i for i, _ in of_row])
                    some = [one for _, one in of_row]
                tensors[name], tensors[f"{name}_lengths"] = pad_sequences(some)
            else:
                tensors[name] = torch.from_numpy(column[rows])
        n = int((tensors[f"{self.counts}_lengths"] - 1).sum()) if self.counts else len(rows)
        return Batch(tensors, tuple(rows.tolist()), count=n)

    def stream(
        self, *, batch_size: int, seed: int, augmentation: Augmentation | None = None
    ) -> Stream:
        """Batches of ``batch_size`` rows without end, or of so many pictures where they are shared.

        What is left of an epoch is left out. What an ``augmentation`` draws for the pictures of a
        batch travels with it (``drawn_in``).
        """

        def collate(table: PictureTable, rows: Ints) -> Batch:
            batch = table.batch(rows)
            if augmentation is None:
                return batch
            drawn = augmentation.draw(batch.numbers, len(batch.pixels))
            named = {f"{DRAWN}{name}": x for name, x in drawn.items()}
            return replace(batch, tensors={**batch.tensors, **named})

        def plan(table: PictureTable, rng: np.random.Generator) -> Sequence[Ints]:
            order = rng.permutation(len(table.pixels) if table.shared else len(table))
            n = len(order) // batch_size
            chosen = [*order[: n * batch_size].reshape(n, batch_size)] if n else [order]
            return [table.rows_of(some) for some in chosen] if table.shared else chosen

        depends_on = {"batch_size": batch_size}
        return Stream(self, plan, collate, seed=seed, depends_on=depends_on)

    def rows_of(self, pictures: Ints) -> Ints:
        """All rows that show one of these pictures."""
        order, ends = self._by_picture
        return np.concatenate([order[ends[i] : ends[i + 1]] for i in pictures])

    @cached_property
    def _by_picture(self) -> tuple[Ints, Ints]:
        """Rows in the order of their pictures; where those of each begin, and (P + 1,) ends."""
        order = np.argsort(self.pictures, kind="stable")
        return order, np.searchsorted(self.pictures[order], np.arange(len(self.pixels) + 1))

    def ordered(self, batch_size: int) -> list[Batch]:
        """All rows once, in their order: for scoring."""
        rows = np.arange(len(self))
        return [self.batch(rows[i : i + batch_size]) for i in range(0, len(rows), batch_size)]


def drawn_in(batch: Batch) -> Draws:
    """What was drawn to change the pictures of a batch."""
    return {
        name.removeprefix(DRAWN): x for name, x in batch.tensors.items() if name.startswith(DRAWN)
    }


def picture_table(
    records: Sequence[PictureRecord],
    size: int,
    fit: Fit,
    cache: Path | None,
    columns: Mapping[str, Column],
    *,
    resample: Resample = "bicubic",
    counts: str = "",
    shared: bool = False,
) -> PictureTable:
    """The pictures of records, decoded once and kept in ``cache``, with columns of their rows."""
    numbers: dict[int, int] = {}
    pictures: list[Picture] = []
    for record in records:
        if id(record.picture) not in numbers:
            numbers[id(record.picture)] = len(pictures)
            pictures.append(record.picture)
    rows = np.array([numbers[id(record.picture)] for record in records], np.int64)
    if cache is None:
        pixels = all_pixels(pictures, size, fit, resample)
    else:
        pixels = stored_pixels(pictures, size, cache, fit, resample)
    return PictureTable(pixels, rows, columns, counts, shared)
