"""Ids in a file: a corpus is tokenised once, and its ids are read from disk as they are needed.

The file's name is a fingerprint of all texts and of the tokenizers, so it is never out of date; and
it is written whole or not at all, so it is never half there. Whoever finds it may delete it; one
that is damaged is made again.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path

import numpy as np

from regard.core.files import telling, whole_file
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
    table = _read(path, len(pairs)) if path.exists() else None
    if table is not None:
        return table
    table = encode_table(pairs, source, target)
    with telling(folder):
        for other in folder.glob("*.npy"):
            other.unlink()
    _write(path, table)
    return _read(path, len(pairs)) or table


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
    with whole_file(path) as file:
        np.save(file, np.concatenate(parts))


def _read(path: Path, n: int) -> Table | None:
    """The table of ``n`` examples; None where the file is damaged."""
    try:
        flat: Ids = np.load(path, mmap_mode="r")
        lengths = flat[1 : 1 + 2 * n].reshape(2, n).astype(np.int64)
    except (ValueError, OSError, EOFError):
        return None
    ids = flat[1 + 2 * n :]
    n_source, n_target = (int(some.sum()) + 1 for some in lengths)  # padding behind the last
    if flat[0] != n or len(ids) != n_source + n_target:
        return None
    return Table(Column.of(ids[:n_source], lengths[0]), Column.of(ids[n_source:], lengths[1]))
