import math

import numpy as np
import pytest

from regard.core.errors import DataError, ShapeError
from regard.evaluation.likelihood import perplexity, token_accuracy


def test_perplexity_is_the_geometric_mean_of_one_over_the_probabilities():
    probabilities = [0.5, 0.125, 0.25]
    total = sum(math.log(p) for p in probabilities)
    assert perplexity(total, 3) == pytest.approx((2 * 8 * 4) ** (1 / 3))


def test_certainty_has_perplexity_one():
    assert perplexity(0.0, 7) == 1.0


def test_a_perplexity_beyond_all_floats_is_infinite():
    assert perplexity(-1e6, 1) == math.inf


def test_perplexity_of_nothing_is_refused():
    with pytest.raises(DataError, match="at least one token, got 0"):
        perplexity(0.0, 0)


def test_token_accuracy_counts_only_where_the_mask_is_true():
    predicted = [[1, 2, 3], [4, 9, 0]]
    reference = [[1, 2, 9], [4, 5, 0]]
    mask = [[True, True, True], [True, True, False]]  # 1, 2 and 4 are right, 3 and 9 wrong
    assert token_accuracy(predicted, reference, mask) == pytest.approx(3 / 5)


def test_shapes_that_would_broadcast_are_refused():
    with pytest.raises(ShapeError, match=r"\(2, 3\), \(3,\) and \(2, 3\)"):
        token_accuracy(np.zeros((2, 3)), np.zeros(3), np.ones((2, 3), bool))


def test_a_mask_of_integers_is_refused_because_it_would_index():
    with pytest.raises(ShapeError, match="must be boolean"):
        token_accuracy([1, 2], [1, 3], [0, 1])


def test_a_mask_that_hides_everything_is_refused():
    with pytest.raises(DataError, match="at least one position"):
        token_accuracy([1, 2], [1, 2], [False, False])
