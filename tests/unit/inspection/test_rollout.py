import numpy as np
import pytest

from regard.core.errors import ShapeError
from regard.inspection.rollout import rollout


def test_rollout_worked_by_hand():
    """Two layers of two heads; each layer's mean, half the identity added, then multiplied."""
    low = np.array([[[1.0, 0.0], [1.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]]])  # mean [[1, 0], [½, ½]]
    high = np.array([[[0.0, 1.0], [0.0, 1.0]]] * 2)
    # low: [[1, 0], [¼, ¾]]; high: [[½, ½], [0, 1]]; high @ low
    np.testing.assert_allclose(rollout([low, high]), [[0.625, 0.375], [0.25, 0.75]])
    np.testing.assert_allclose(rollout([low]), [[1, 0], [0.25, 0.75]])


def test_rows_sum_to_one_even_where_a_query_saw_nothing():
    rng = np.random.default_rng(0)
    weights = rng.random((3, 5, 5), dtype=np.float32)
    weights[:, 0] = 0.0
    found = rollout([weights, weights])
    np.testing.assert_allclose(found.sum(-1), 1)
    np.testing.assert_allclose(found[0], np.eye(5)[0])


def test_only_self_attention_can_be_followed():
    with pytest.raises(ShapeError, match=r"\(H, T, T\); got \[\(3, 4\)\]"):
        rollout([np.zeros((2, 3, 4))])
