"""Scores of labels."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from regard.core.errors import DataError


def accuracy(predicted: Sequence[Hashable], right: Sequence[Hashable]) -> float:
    """Share of labels that agree.

    >>> accuracy(["a", "b", "a", "a"], ["a", "b", "b", "b"])
    0.5
    """
    _check(predicted, right)
    return sum(p == r for p, r in zip(predicted, right, strict=True)) / len(right)


def macro_f1(predicted: Sequence[Hashable], right: Sequence[Hashable]) -> float:
    """The mean F1 of the labels that were given or should have been, each counting alike.

    >>> round(macro_f1(["a", "b", "a", "a"], ["a", "b", "b", "b"]), 4)  # a: 0.5, b: 0.5
    0.5
    """
    _check(predicted, right)
    pairs = list(zip(predicted, right, strict=True))
    scores = []
    for label in dict.fromkeys([*right, *predicted]):
        hits = sum(p == r == label for p, r in pairs)
        given = sum(p == label for p, _ in pairs)
        wanted = sum(r == label for _, r in pairs)
        scores.append(2 * hits / (given + wanted))
    return sum(scores) / len(scores)


def _check(predicted: Sequence[Hashable], right: Sequence[Hashable]) -> None:
    if len(predicted) != len(right):
        raise DataError(f"{len(predicted)} labels were predicted for {len(right)} examples")
    if not right:
        raise DataError("there are no labels to be scored")
