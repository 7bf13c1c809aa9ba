"""Ids in a file: a corpus is tokenised once, and its ids are read from disk as they are needed.

The file's name is a fingerprint of all texts and of the tokenizers, so it is never out of date; and
it is written whole or not at all, so it is never half there. Whoever finds it may delete it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path

import numpy as np

from regard.core.files import PARTIAL, telling
from regard.data.examples import Column, Ids, Table, encode_table
from regard.data.pairs import Pair
from regard.text.tokenizer import Tokenizer


def stored_table(
    pairs: Sequence[Pair], source: Tokenizer, target: Tokenizer, folder: Path
) -> Table:
    """The ids of all pairs, from the file in ``folder``, which is made if it is not there.

    Files of other texts or tokenizers are deleted: a folder holds those of one corpus.
    """
    path = folder / f"{_fingerprint(pairs, source, target)}.npy"
    if not path.exists():
        table = encode_table(pairs, source, target)
        for other in folder.glob("*.npy"):
            other.unlink()
        _write(path, table)
    return _read(path)


def _fingerprint(pairs: Sequence[Pair], source: Tokenizer, target: Tokenizer) -> str:
    hashed = blake2b(digest_size=16)
    for tokenizer in (source, target):
        hashed.update(tokenizer.to_json().encode())
    for pair in pairs:
        for text in (pair.source, pair.target):
            hashed.update(f"{len(text)} {text}".encode("utf-8", "surrogatepass"))
    return hashed.hexdigest()


def _write(path: Path, table: Table) -> None:
    """One array: how many examples, lengths of sources and of targets, their ids."""
    columns = table.source, table.target
    head = [np.array([len(table)]), *(column.lengths for column in columns)]
    parts = [*(part.astype(np.int32) for part in head), *(column.ids for column in columns)]
    partial = path.with_name(path.name + PARTIAL)
    with telling(path):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with partial.open("wb") as file:
                np.save(file, np.concatenate(parts))
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)
        except OSError:
            partial.unlink(missing_ok=True)
            raise


def _read(path: Path) -> Table:
    flat: Ids = np.load(path, mmap_mode="r")
    n = int(flat[0])
    lengths = flat[1 : 1 + 2 * n].reshape(2, n).astype(np.int64)
    ids = flat[1 + 2 * n :]
    middle = int(lengths[0].sum()) + 1  # with the padding behind the last
    return Table(Column.of(ids[:middle], lengths[0]), Column.of(ids[middle:], lengths[1]))
