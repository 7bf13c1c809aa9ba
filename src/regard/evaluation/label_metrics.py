"""Scores of labels, numbers and links between words, and those that are measured on the model."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Hashable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from regard.core.errors import DataError
from regard.evaluation.metrics import METRICS, Metric, check_parallel, metric

Link = tuple[int, int]


# Of labels and numbers


@metric("top5", title="top-5", unit="share", better="higher", takes="ranked labels")
def top5(predicted: Sequence[Sequence[Any]], right: Sequence[Any]) -> float:
    """Share of examples whose right label is one of the first five.

    >>> top5([["a", "b"], ["b", "c"]], ["b", "a"])
    0.5
    """
    hits = sum(one in ranked[:5] for ranked, one in zip(predicted, right, strict=True))
    return hits / len(right)


@metric("accuracy", unit="share", better="higher", takes="labels")
def accuracy(predicted: Sequence[Hashable], right: Sequence[Hashable]) -> float:
    """Share of labels that agree.

    >>> accuracy(["a", "b", "a", "a"], ["a", "b", "b", "b"])
    0.5
    """
    check_parallel(predicted=predicted, right=right)
    return sum(p == r for p, r in zip(predicted, right, strict=True)) / len(right)


@metric("macro_f1", title="macro F1", unit="share", better="higher", takes="labels")
def macro_f1(predicted: Sequence[Hashable], right: Sequence[Hashable]) -> float:
    """The mean F1 of the labels that were given or should have been, each counting alike.

    >>> round(macro_f1(["a", "b", "a", "a"], ["a", "b", "b", "b"]), 4)  # a: 0.5, b: 0.5
    0.5
    """
    check_parallel(predicted=predicted, right=right)
    hits = Counter(p for p, r in zip(predicted, right, strict=True) if p == r)
    given, wanted = Counter(predicted), Counter(right)
    labels = dict.fromkeys([*right, *predicted])
    return sum(2 * hits[one] / (given[one] + wanted[one]) for one in labels) / len(labels)


@metric("spearman", title="Spearman", unit="correlation", better="higher", takes="numbers")
def spearman(first: Sequence[float], second: Sequence[float]) -> float:
    """Correlation of the ranks, equals sharing theirs.

    >>> spearman([1, 2, 3], [10, 100, 1000])
    1.0
    """
    x, y = _numbers(first, second)
    return pearson(_ranks(x).tolist(), _ranks(y).tolist())


@metric("pearson", title="Pearson", unit="correlation", better="higher", takes="numbers")
def pearson(first: Sequence[float], second: Sequence[float]) -> float:
    """Correlation, −1 to 1; nan where all numbers of a list are the same.

    >>> round(pearson([1, 2, 3], [2, 4, 7]), 4)
    0.9934
    """
    x, y = _numbers(first, second)
    x, y = x - x.mean(), y - y.mean()
    norm = float(np.sqrt((x @ x) * (y @ y)))
    return float(x @ y) / norm if norm else float("nan")


def _ranks(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """From 1; equals get the mean of the ranks that they take together."""
    _, which, counts = np.unique(numbers, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[which]


def _numbers(
    first: Sequence[float], second: Sequence[float]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    if len(first) != len(second):
        raise DataError(f"{len(first)} numbers cannot be compared with {len(second)}")
    if len(first) < 2:
        raise DataError("a correlation needs at least two examples")
    return np.asarray(first, np.float64), np.asarray(second, np.float64)


# Of links between words, and of the model itself


@metric("aer", title="AER", unit="share", better="lower", takes="links")
def alignment_error_rate(
    predicted: Sequence[Collection[Link]],
    sure: Sequence[Collection[Link]],
    possible: Sequence[Collection[Link]] | None = None,
) -> float:
    """1 - (|A∩S| + |A∩P|) / (|A| + |S|), over the whole corpus (Och & Ney 2003); 0 is perfect.

    One collection of links (source word, target word) a sentence. Whatever is sure is possible
    too; without ``possible``, nothing else is, and the rate is 1 - F1.
    """
    maybe = sure if possible is None else possible
    check_parallel(predicted=predicted, sure=sure, possible=maybe)
    hits = links = 0
    for a, s, p in zip(map(set, predicted), map(set, sure), map(set, maybe), strict=True):
        hits += len(a & s) + len(a & (p | s))
        links += len(a) + len(s)
    if not links:
        raise DataError("alignment error rate needs links, predicted and gold have none at all")
    return 1 - hits / links


def perplexity(total_log_prob: float, n_tokens: int) -> float:
    """exp of minus the mean natural log-probability: among how many tokens a model hesitates.

    >>> round(perplexity(4 * math.log(1 / 8), 4), 9)
    8.0
    """
    if n_tokens < 1:
        raise DataError(f"perplexity needs at least one token, got {n_tokens}; score some text")
    try:
        return math.exp(-total_log_prob / n_tokens)
    except OverflowError:
        return math.inf


_MEASURED: tuple[tuple[str, str, str, Literal["higher", "lower"]], ...] = (
    ("loss", "loss", "nats", "lower"),
    ("perplexity", "perplexity", "perplexity", "lower"),
    ("log_perplexity", "log-perplexity", "nats", "lower"),
    ("fact_attention", "attention on facts", "share", "higher"),
    ("word_perplexity", "perplexity a word", "perplexity", "lower"),
    ("antecedent_accuracy", "antecedent accuracy", "share", "higher"),
    ("true_captions", "true of the picture", "share", "higher"),
    ("pointing_accuracy", "pointing accuracy", "share", "higher"),
    ("mass_inside", "mass inside", "share", "higher"),
    ("rank_correlation", "rank correlation", "correlation", "higher"),
)
for _name, _title, _unit, _better in _MEASURED:
    METRICS.add(_name)(Metric(name=_name, title=_title, unit=_unit, better=_better))
