import math
import random

import pytest

from regard.core.errors import DataError
from regard.evaluation.correlation import pearson, spearman
from regard.evaluation.labels import accuracy, macro_f1


def f1_by_loops(predicted, right):
    scores = []
    for label in {*predicted, *right}:
        hit = miss = false = 0
        for p, r in zip(predicted, right, strict=True):
            hit += p == label and r == label
            false += p == label and r != label
            miss += p != label and r == label
        precision = hit / (hit + false) if hit + false else 0
        recall = hit / (hit + miss) if hit + miss else 0
        both = precision + recall
        scores.append(2 * precision * recall / both if both else 0)
    return sum(scores) / len(scores)


def rank_by_loops(numbers, x):
    below = sum(y < x for y in numbers)
    equal = sum(y == x for y in numbers)
    return below + (equal + 1) / 2


def pearson_by_loops(a, b):
    mean_a, mean_b = sum(a) / len(a), sum(b) / len(b)
    top = sum((x - mean_a) * (y - mean_b) for x, y in zip(a, b, strict=True))
    bottom = math.sqrt(sum((x - mean_a) ** 2 for x in a) * sum((y - mean_b) ** 2 for y in b))
    return top / bottom


def drawn(seed, n=40, values=6):
    rng = random.Random(seed)
    return [rng.randrange(values) for _ in range(n)], [rng.randrange(values) for _ in range(n)]


@pytest.mark.parametrize("seed", range(5))
def test_macro_f1_is_that_of_precision_and_recall(seed):
    predicted, right = drawn(seed)
    assert macro_f1(predicted, right) == pytest.approx(f1_by_loops(predicted, right))


def test_a_label_that_is_never_given_counts_as_nothing():
    assert macro_f1(["a", "a"], ["a", "b"]) == pytest.approx((2 / 3 + 0) / 2)
    assert accuracy(["a", "a"], ["a", "b"]) == 0.5


@pytest.mark.parametrize("seed", range(5))
def test_spearman_is_the_correlation_of_ranks_equals_sharing_theirs(seed):
    a, b = drawn(seed)
    ranks = [[rank_by_loops(side, x) for x in side] for side in (a, b)]
    assert spearman(a, b) == pytest.approx(pearson_by_loops(*ranks))
    assert pearson(a, b) == pytest.approx(pearson_by_loops(a, b))


def test_a_known_value():
    """Ranks 1 2 3 4 5 and 2 1 4 3 5: 1 - 6 · 4 / (5 · 24)."""
    assert spearman([1, 2, 3, 4, 5], [20, 10, 40, 30, 50]) == pytest.approx(0.8)


def test_what_is_always_the_same_has_no_correlation():
    assert math.isnan(pearson([1, 1, 1], [1, 2, 3]))


@pytest.mark.parametrize("measure", [accuracy, macro_f1, pearson, spearman])
def test_what_cannot_be_compared_is_refused(measure):
    with pytest.raises(DataError):
        measure([1, 2], [1])
    with pytest.raises(DataError):
        measure([], [])
