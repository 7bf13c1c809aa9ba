"""Distances between heads, their map and their clusters."""

import math
from itertools import pairwise

import numpy as np
import pytest

from regard.inspection.agreement import clusters, divergences, plane

END, PAD = 2, 0
WORDS = np.array([[4, 5]])
COLUMNS = np.array([[4, 5, END]])


def between(*heads):
    """Mean divergences of heads, each (T, S), on one sentence of two words."""
    weights = np.stack([np.array(head, dtype=float) for head in heads])[None]
    return divergences(weights, WORDS, COLUMNS).mean()


def test_equal_heads_are_at_no_distance():
    head = [[0.2, 0.3, 0.5], [0.7, 0.1, 0.2]]
    assert between(head, head).tolist() == [[0, 0], [0, 0]]


def test_heads_without_a_common_place_are_one_bit_apart():
    assert between([[1, 0, 0], [0, 1, 0]], [[0, 0.5, 0.5], [0, 0, 1]])[0, 1] == 1.0


def test_a_distance_worked_by_hand():
    """Row 1: (1, 0, 0) and (½, ½, 0). Middle (¾, ¼, 0), so JS = h(¼) - ½. Row 2: equal, so 0."""
    h = -(0.75 * math.log2(0.75) + 0.25 * math.log2(0.25))
    got = between([[1, 0, 0], [0, 0, 1]], [[0.5, 0.5, 0], [0, 0, 1]])
    assert got[0, 1] == pytest.approx((h - 0.5) / 2)
    assert got[0, 1] == pytest.approx(0.1556390622)


def test_distances_are_symmetric_and_their_batches_add_up():
    rng = np.random.default_rng(0)
    weights = rng.dirichlet(np.ones(3), size=(5, 4, 2))  # (B, H, T, S)
    rows, columns = np.repeat(WORDS, 5, axis=0), np.repeat(COLUMNS, 5, axis=0)
    whole = divergences(weights, rows, columns)
    parts = [divergences(weights[s], rows[s], columns[s]) for s in (slice(0, 2), slice(2, 5))]
    np.testing.assert_allclose((parts[0] + parts[1]).mean(), whole.mean())
    assert (whole.mean() == whole.mean().T).all()
    assert (np.diag(whole.mean()) == 0).all()
    assert (whole.mean()[~np.eye(4, dtype=bool)] > 0.01).all()
    for i, j, b, t in [(0, 1, 2, 1), (3, 2, 4, 0)]:  # one row alone, by the definition
        one = divergences(weights[b : b + 1, [i, j]][:, :, [t]], WORDS[:, [t]], COLUMNS).mean()
        p, q = weights[b, i, t], weights[b, j, t]
        m = (p + q) / 2
        kl = sum(p * np.log2(p / m)) / 2 + sum(q * np.log2(q / m)) / 2
        assert one[0, 1] == pytest.approx(kl)


def test_padding_and_special_rows_change_no_distance():
    weights = np.random.default_rng(1).dirichlet(np.ones(3), size=(1, 3, 2))
    wide = np.random.default_rng(2).dirichlet(np.ones(5), size=(1, 3, 4))
    wide[:, :, :2] = 0
    wide[:, :, :2, :3] = weights
    rows, columns = np.array([[4, 5, END, PAD]]), np.array([[4, 5, END, PAD, PAD]])
    got = divergences(wide, rows, columns).mean()
    np.testing.assert_allclose(got, divergences(weights, WORDS, COLUMNS).mean())


def test_a_row_that_sees_nothing_is_not_compared():
    got = between([[0, 0, 0], [1, 0, 0]], [[1, 0, 0], [0, 1, 0]])
    assert got[0, 1] == 1.0


def test_no_distance_is_negative_however_near_two_heads_are():
    rng = np.random.default_rng(0)
    heads = rng.dirichlet(np.ones(3), size=(1, 2)) + 1e-12 * rng.random((300, 2, 3))
    assert (between(*heads) >= 0).all()


def distances_of(points):
    return np.linalg.norm(points[:, None] - points[None], axis=-1)


def test_a_plane_keeps_the_distances_of_points_in_a_plane():
    points = np.random.default_rng(0).normal(size=(9, 2))
    placed = plane(distances_of(points))
    np.testing.assert_allclose(distances_of(placed), distances_of(points), atol=1e-12)
    np.testing.assert_allclose(placed.mean(axis=0), 0, atol=1e-12)
    assert np.ptp(placed[:, 0]) > np.ptp(placed[:, 1])  # the longer way lies across


@pytest.mark.parametrize("n", [1, 2, 3])
def test_few_heads_have_a_map_too(n):
    points = np.arange(n, dtype=float)[:, None] * [1.0, 0.0]
    placed = plane(distances_of(points))
    assert placed.shape == (n, 2)
    np.testing.assert_allclose(distances_of(placed), distances_of(points), atol=1e-7)


def test_distances_that_no_plane_has_are_placed_nonetheless():
    """From 0 to 1 it is farther than by way of 2; rounding leaves an eigenvalue just below 0."""
    far, near, other = 0.6084871855628115, 0.003662865737964433, 0.05197040093558369
    placed = plane(np.array([[0, far, near], [far, 0, other], [near, other, 0]]))
    assert placed[0, 0] < placed[2, 0] < placed[1, 0] or placed[0, 0] > placed[2, 0] > placed[1, 0]
    assert placed[:, 1].tolist() == pytest.approx([0, 0, 0], abs=1e-6)


def test_clusters_are_found_and_numbered_in_the_order_of_the_heads():
    points = np.array([[0, 0], [9, 0], [0, 0.1], [9, 0.3], [0.2, 0], [4, 7]], dtype=float)
    assert clusters(distances_of(points)) == [0, 1, 0, 1, 0, 2]


def test_clusters_worked_by_hand():
    """Joined at 4 {0, 4}, 6 {9, 15}, 9 {9, 15, 21} and 13: the largest jump is the last."""
    line = np.array([[0.0, 0], [4, 0], [9, 0], [15, 0], [21, 0]])
    assert clusters(distances_of(line)) == [0, 0, 1, 1, 1]


def clusters_by_loops(distances):
    """Nearness is the mean over all pairs of members, computed anew each time."""
    groups, states, heights = [[i] for i in range(len(distances))], [], []
    while len(groups) > 1:
        height, a, b = min(
            (np.mean([distances[i, j] for i in a for j in b]), a, b)
            for n, a in enumerate(groups)
            for b in groups[n + 1 :]
        )
        groups = sorted([one for one in groups if one not in (a, b)] + [sorted(a + b)])
        states.append(groups)
        heights.append(height)
    jumps = [after - before for before, after in pairwise(heights)]
    chosen = states[jumps.index(max(jumps))]
    return [next(n for n, one in enumerate(chosen) if i in one) for i in range(len(distances))]


@pytest.mark.parametrize("seed", range(30))
def test_nearness_is_the_mean_distance_of_all_members(seed):
    distances = distances_of(np.random.default_rng(seed).random((7, 2)))
    assert clusters(distances) == clusters_by_loops(distances)


@pytest.mark.parametrize("n", [1, 2, 4])
def test_heads_that_are_all_alike_are_one_cluster(n):
    assert clusters(np.ones((n, n)) - np.eye(n)) == [0] * n
    assert clusters(np.zeros((n, n))) == [0] * n
