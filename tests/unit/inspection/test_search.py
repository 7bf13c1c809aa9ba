"""The pair of a text at which a head's weight is largest."""

import numpy as np
import pytest

from regard.core.errors import ShapeError
from regard.inspection.search import strongest_pair

WEIGHTS = np.array([[0.1, 0.9, 0.0], [0.3, 0.3, 0.4]])
ALL = [True, True, True]


def test_it_is_the_largest_weight_among_wanted_rows_and_columns():
    assert strongest_pair(WEIGHTS, [True, True], ALL) == (0, 1, 0.9)
    assert strongest_pair(WEIGHTS, [False, True], ALL) == (1, 2, 0.4)
    assert strongest_pair(WEIGHTS, [True, True], [True, False, True]) == (1, 2, 0.4)


def test_a_weight_of_zero_can_be_the_largest_and_of_equals_it_is_the_first():
    assert strongest_pair(WEIGHTS, [True, False], [False, False, True]) == (0, 2, 0.0)
    assert strongest_pair(WEIGHTS, [False, True], [True, True, False]) == (1, 0, 0.3)


def test_there_is_none_where_no_row_or_no_column_is_wanted():
    assert strongest_pair(WEIGHTS, [False, False], ALL) is None
    assert strongest_pair(WEIGHTS, [True, True], [False] * 3) is None


def test_flags_that_do_not_fit_are_refused():
    with pytest.raises(ShapeError, match="do not fit 3 rows"):
        strongest_pair(WEIGHTS, ALL, ALL)
