"""The loop over words and the product of matrices compute the same numbers, each at its place.

Plain self-attention of three words in two dimensions, small enough to follow with a pencil. The
loop takes one word at a time: a product with each word, the exponential of each over their sum, the
weighted sum of the words. The matrices take all at once: W = softmax(X Xᵀ) along the rows, Y = W X.
Along the columns it would be another thing: weights that sum to 1 over those who ask.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch

from regard.core.errors import ConfigError
from regard.lab.result import Result, unmet
from regard.visual.grids import sheets
from regard.visual.tables import Table

WORDS = ("the", "blue", "sky")
X = ((1.0, 0.0), (0.0, 2.0), (1.0, 1.0))
"""A row a word."""
DIMENSIONS = ("first", "second")
Rows = list[list[float]]


class Worked(NamedTuple):
    """All numbers on the way, one row a word that asks."""

    scores: Rows
    """w′: products with each word."""
    weights: Rows
    outputs: Rows
    """y, in the dimensions of x."""


def vectorise(*, axis: int = 1) -> Result:
    """The loop beside the matrices, whose softmax sums to 1 along ``axis``: 1 is along the rows."""
    if axis not in (0, 1):
        raise ConfigError(f"a matrix has the axes 0 and 1, got {axis}")
    slow, fast = by_loop(), by_matrices(axis)
    apart = {
        name: max(
            abs(a - b)
            for mine, others in zip(loop, product, strict=True)
            for a, b in zip(mine, others, strict=True)
        )
        for name, loop, product in zip(Worked._fields, slow, fast, strict=True)
    }
    same = {f"{name} are the same": error < 1e-12 for name, error in apart.items()}
    return Result(
        name="vectorise",
        verdict=all(same.values()),
        finding=(
            f"Scores differ by {apart['scores']:.1g}, weights by {apart['weights']:.1g} and "
            f"outputs by {apart['outputs']:.1g}. A row of each matrix is what the loop has for its "
            f"word: of X Xᵀ the row of {WORDS[-1]} is {_told(fast.scores[-1])}, of W "
            f"{_told(fast.weights[-1])}, of Y {_told(fast.outputs[-1])}.{unmet(same)}"
        ),
        numbers={
            "x": [one for row in X for one in row],
            **{f"largest difference of {name}": error for name, error in apart.items()},
            **{
                f"{name}, {how}: {word}": row
                for how, worked in (("loop", slow), ("matrices", fast))
                for name, rows in worked._asdict().items()
                for word, row in zip(WORDS, rows, strict=True)
            },
        },
        pictures=(
            _sheet(slow, ("x·x", "softmax", "sum"), "The loop, a row at a time"),
            _sheet(fast, ("X Xᵀ", "W = softmax(X Xᵀ)", "Y = W X"), "Matrices, all at once"),
        ),
        tables=(*map(_for_word, range(len(WORDS))), *_matrix_tables(fast)),
    )


def by_loop() -> Worked:
    """Word by word, with nothing but numbers."""
    worked = Worked([], [], [])
    for asks in X:
        scores = [sum(a * b for a, b in zip(asks, word, strict=True)) for word in X]
        total = sum(map(math.exp, scores))
        weights = [math.exp(score) / total for score in scores]
        output = [sum(w * word[d] for w, word in zip(weights, X, strict=True)) for d in range(2)]
        for column, row in zip(worked, (scores, weights, output), strict=True):
            column.append(row)
    return worked


def by_matrices(axis: int) -> Worked:
    """All words at once."""
    x = torch.tensor(X, dtype=torch.float64)
    scores = x @ x.T
    weights = scores.softmax(dim=axis)
    return Worked(scores.tolist(), weights.tolist(), (weights @ x).tolist())


def _sheet(worked: Worked, names: tuple[str, ...], title: str) -> str:
    """All numbers, a row a word that asks."""
    columns = dict(zip(names, (WORDS, WORDS, DIMENSIONS), strict=True))
    return sheets(dict(zip(names, worked, strict=True)), columns, WORDS, title=title)


def _told(row: list[float]) -> str:
    return "(" + ", ".join(f"{one:.3g}" for one in row) + ")"


def _for_word(i: int) -> Table:
    """One turn of the loop, a line a word that is looked at."""
    slow = by_loop()
    rows = [
        [
            f"{WORDS[i]} → {word}",
            f"{X[i][0]:g}·{X[j][0]:g} + {X[i][1]:g}·{X[j][1]:g} = {slow.scores[i][j]:g}",
            f"{math.exp(slow.scores[i][j]):.3f}",
            f"{slow.weights[i][j]:.3f}",
            _told([slow.weights[i][j] * one for one in X[j]]),
        ]
        for j, word in enumerate(WORDS)
    ]
    total = sum(map(math.exp, slow.scores[i]))
    rows.append(["sum", "", f"{total:.3f}", "1", _told(slow.outputs[i])])
    return Table(f"The loop at “{WORDS[i]}”", ["", "x·x", "exp", "weight", "weight × x"], rows)


def _matrix_tables(worked: Worked) -> tuple[Table, ...]:
    shown = (
        ("X", [list(row) for row in X], DIMENSIONS),
        ("X Xᵀ", worked.scores, WORDS),
        ("W = softmax(X Xᵀ)", worked.weights, WORDS),
        ("Y = W X", worked.outputs, DIMENSIONS),
    )
    return tuple(
        Table(
            name,
            ["", *columns],
            [[w, *(f"{one:.3g}" for one in row)] for w, row in zip(WORDS, rows, strict=True)],
        )
        for name, rows, columns in shown
    )
