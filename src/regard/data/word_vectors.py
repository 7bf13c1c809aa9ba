"""Files of word vectors, in the text format of word2vec: read plain or packed, written plain.

A line is a word and its numbers, divided by single spaces. A first line of two whole numbers says
how many words there are and how many numbers each has; it may be missing.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from regard.core.errors import ConfigError, DataError
from regard.core.files import write_whole
from regard.data.lines import excerpt, read_lines

Vector = NDArray[np.float32]


def read_vectors(path: Path, wanted: Collection[str], d_model: int) -> dict[str, Vector]:
    """The vectors (d_model,) of those of the wanted words that a file has.

    Of a word that stands there twice the first line counts. In lines of other words, only the
    number of columns is looked at.
    """
    found: dict[str, Vector] = {}
    promised, n_words = None, 0
    for number, line in enumerate(read_lines(path), start=1):
        where, row = f"{path}:{number}", line.rstrip(" ")
        if number == 1:
            fields = row.split(" ")
            headed = len(fields) == 2 and all(one.isascii() and one.isdigit() for one in fields)
            width = int(fields[1]) if headed else len(_vector(fields[1:], where, row))
            check_width(path, width, d_model)
            if headed:
                promised = int(fields[0])
                continue
        if row:
            n_words += 1
            word, numbers = _parted(row, d_model, where)
            if word in wanted and word not in found:
                found[word] = _vector(numbers, where, row)
    if not n_words:
        raise DataError(f"{path}: no vector in it; expected a word and its numbers a line")
    if promised not in (None, n_words):
        raise DataError(
            f"{path}: its first line promises {promised:,} words, but there are {n_words:,}; "
            "fetch it again, or correct that line"
        )
    return found


def check_width(path: Path, width: int, d_model: int) -> None:
    """Refuse vectors of a file or a run that do not fit an embedding of this width."""
    if width != d_model:
        raise ConfigError(
            f"train.vectors: {path} has vectors of {width} numbers, but model.d_model is "
            f"{d_model}; set model.d_model={width}, or take other vectors"
        )


def write_vectors(path: Path, words: Sequence[str], vectors: NDArray[np.float32]) -> None:
    """Words and their vectors (V, D), as ``read_vectors`` has them back to the last bit."""
    rows = [f"{len(words)} {vectors.shape[1]}"]
    for word, vector in zip(words, vectors, strict=True):
        rows.append(" ".join((word, *(f"{number:.9g}" for number in vector.tolist()))))
    write_whole(path, "\n".join(rows) + "\n")


def _parted(row: str, width: int, where: str) -> tuple[str, list[str]]:
    """A word, which may have spaces in it, and its numbers."""
    word, *numbers = row.rsplit(" ", width)
    if len(numbers) != width or not word:
        n_found = row.count(" ")
        raise DataError(
            f"{where}: expected a word and {width} numbers, divided by single spaces, but found "
            f"{n_found} after the first space in {excerpt(row)}"
        )
    return word, numbers


def _vector(numbers: list[str], where: str, row: str) -> Vector:
    try:
        with np.errstate(over="ignore"):  # told below
            vector = np.array([float(one) for one in numbers], np.float32)
    except ValueError as error:
        raise DataError(
            f"{where}: expected a word and its numbers, divided by single spaces, but found "
            f"{excerpt(row)} ({error})"
        ) from None
    if not np.isfinite(vector).all():
        raise DataError(f"{where}: a number is infinite or none at all in {excerpt(row)}")
    return vector
