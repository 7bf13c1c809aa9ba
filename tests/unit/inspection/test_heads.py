"""What heads do, as numbers: measures, likeness and rollout."""

import math
from itertools import pairwise

import numpy as np
import pytest

from regard.core.errors import ShapeError
from regard.inspection.heads import MEASURES, clusters, divergences, plane, rollout, tally

PAD, BEGIN, END = 0, 1, 2


def made(shape, seed=0):
    """Rows of positive weights that sum to 1."""
    weights = np.random.default_rng(seed).random(shape) ** 3
    return weights / weights.sum(axis=-1, keepdims=True)


def hidden(weights, columns):
    """Padding gets no weight."""
    weights = weights * (columns != PAD)[:, None, None, :]
    return weights / weights.sum(axis=-1, keepdims=True)


def by_loops(weights, rows, columns, *, same):
    """Slow and obvious; head -> measure -> mean."""
    B, H, T, S = weights.shape
    results = []
    for h in range(H):
        seen = {name: [] for name in MEASURES}
        far = mass = 0.0
        for b in range(B):
            word = [columns[b, s] not in (PAD, BEGIN, END) for s in range(S)]
            for t in range(T):
                if rows[b, t] in (PAD, BEGIN, END) or weights[b, h, t].sum() == 0:
                    continue
                row = (weights[b, h, t] / weights[b, h, t].sum()).tolist()
                seen["entropy"].append(-sum(w * math.log2(w) for w in row if w > 0))
                seen["confidence"].append(max(row))
                seen["first"].append(row[0])
                if END in columns[b]:
                    seen["separator"].append(row[columns[b].tolist().index(END)])
                for name, s in (("self", t), ("previous", t - 1), ("next", t + 1)):
                    if same and 0 <= s < S and word[s]:
                        seen[name].append(row[s])
                for s in range(S):
                    if word[s]:
                        far, mass = far + row[s] * abs(t - s), mass + row[s]
        means = {name: sum(found) / len(found) if found else None for name, found in seen.items()}
        results.append({**means, "distance": far / mass if mass else None})
    return results


def assert_same(got, wanted):
    for name in MEASURES:
        for head, one in enumerate(wanted):
            if one[name] is None:
                assert got[name][head] is None, name
            else:
                assert got[name][head] == pytest.approx(one[name]), (name, head)


SOURCE = np.array([[7, 8, 9, 5, END], [6, 4, END, PAD, PAD]])
WRITTEN = np.array([[5, 6, 7, END], [9, END, PAD, PAD]])
READ = np.array([[BEGIN, 5, 6, 7], [BEGIN, 9, PAD, PAD]])


def test_self_attention_of_an_encoder_is_measured_as_loops_do():
    weights = hidden(made((2, 3, 5, 5)), SOURCE)
    got = tally(weights, SOURCE, SOURCE, same=True).means()
    assert_same(got, by_loops(weights, SOURCE, SOURCE, same=True))
    assert None not in [value for values in got.values() for value in values]


def test_self_attention_of_a_decoder_never_sees_what_comes_and_has_no_end_token():
    weights = made((2, 3, 4, 4)) * np.tril(np.ones((4, 4)))
    weights /= weights.sum(axis=-1, keepdims=True)
    got = tally(weights, READ, READ, same=True).means()
    assert_same(got, by_loops(weights, READ, READ, same=True))
    assert got["next"] == [0.0] * 3
    assert got["separator"] == [None] * 3


def test_cross_attention_has_no_self_and_no_neighbours():
    weights = hidden(made((2, 3, 4, 5)), SOURCE)
    got = tally(weights, WRITTEN, SOURCE, same=False).means()
    assert_same(got, by_loops(weights, WRITTEN, SOURCE, same=False))
    for name in ("self", "previous", "next"):
        assert got[name] == [None] * 3


def test_what_a_head_does_can_be_read_off():
    """Three heads on four words and an end: one looks back, one ahead, one at the end token."""
    ids = np.array([[4, 5, 6, 7, END]])
    back, ahead, end = np.eye(5, k=-1), np.eye(5, k=1), np.eye(5)[[4] * 5]
    got = tally(np.stack([back, ahead, end])[None], ids, ids, same=True).means()
    assert got["previous"] == [1.0, 0.0, 0.0]
    assert got["next"] == [0.0, 1.0, 0.0]
    assert got["separator"] == [0.0, 0.25, 1.0]  # the last word's next is the end token
    assert got["entropy"] == [0.0, 0.0, 0.0]
    assert got["confidence"] == [1.0, 1.0, 1.0]
    assert got["distance"] == [1.0, 1.0, None]  # a head that sees no word is nowhere


def test_even_weights_have_the_entropy_of_their_number():
    ids = np.array([[4, 5, 6, 7]])
    got = tally(np.full((1, 1, 4, 4), 0.25), ids, ids, same=True).means()
    assert got["entropy"] == [2.0]
    assert got["confidence"] == [0.25]


def test_rows_that_see_nothing_do_not_count_and_faint_ones_count_in_full():
    ids = np.array([[4, 5, 6]])
    weights = np.array([[0, 0, 0], [1, 0, 0], [0, 0.1, 0]])[None, None]
    got = tally(weights, ids, ids, same=True).means()
    assert got["confidence"] == [1.0]
    assert got["previous"] == [1.0]
    assert got["first"] == [0.5]


def test_padding_changes_nothing():
    weights = made((1, 2, 3, 3))
    ids = np.array([[4, 5, END]])
    wide, padded = made((1, 2, 6, 6), seed=1), np.array([[4, 5, END, PAD, PAD, PAD]])
    wide[:, :, :3] = 0
    wide[:, :, :3, :3] = weights
    once = tally(weights, ids, ids, same=True).means()
    again = tally(wide, padded, padded, same=True).means()
    for name in MEASURES:
        assert again[name] == pytest.approx(once[name])


def test_batches_add_up():
    weights = hidden(made((2, 3, 5, 5)), SOURCE)
    parts = [
        tally(weights[i : i + 1], SOURCE[i : i + 1], SOURCE[i : i + 1], same=True) for i in (0, 1)
    ]
    together = tally(weights, SOURCE, SOURCE, same=True)
    np.testing.assert_allclose((parts[0] + parts[1]).sums, together.sums)
    np.testing.assert_allclose((parts[0] + parts[1]).counts, together.counts)


def test_ids_of_another_shape_are_refused():
    with pytest.raises(ShapeError, match=r"expected rows \(2, 5\)"):
        tally(made((2, 3, 5, 5)), WRITTEN, SOURCE, same=True)


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
