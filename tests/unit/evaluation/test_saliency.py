"""Where a model looks, beside where things are: by loops, and baselines that know nothing."""

import numpy as np
import pytest
from scipy.stats import spearmanr

from regard.evaluation.saliency import (
    attention_distance,
    centre_maps,
    covered,
    derangement,
    looking,
    mass_inside,
    nss,
    pointing_accuracy,
    position_similarities,
    rank_correlation,
)


def example(n=6, seed=0):
    """Maps of 4 × 4 patches, and objects in pictures of 16 × 16."""
    rng = np.random.default_rng(seed)
    maps = rng.random((n, 4, 4))
    masks = np.zeros((n, 16, 16), bool)
    for mask in masks:
        top, left = rng.integers(0, 10, 2)
        mask[top : top + 5, left : left + 6] = True
    return maps, masks


def test_patches_are_covered_as_counted():
    _, masks = example()
    found = covered(masks, (4, 4))
    for i in range(6):
        for r in range(4):
            for c in range(4):
                tile = masks[i, 4 * r : 4 * r + 4, 4 * c : 4 * c + 4]
                assert found[i, r, c] == tile.sum() / 16


def test_pointing_and_mass_by_a_loop():
    maps, masks = example()
    hits, mass = [], []
    for one, mask in zip(maps, masks, strict=True):
        r, c = np.unravel_index(one.argmax(), one.shape)
        hits.append(mask[4 * r : 4 * r + 4, 4 * c : 4 * c + 4].any())
        shares = [
            [mask[4 * i : 4 * i + 4, 4 * j : 4 * j + 4].mean() for j in range(4)] for i in range(4)
        ]
        mass.append((one * np.array(shares)).sum() / one.sum())
    assert pointing_accuracy(maps, masks) == pytest.approx(np.mean(hits))
    assert mass_inside(maps, masks) == pytest.approx(np.mean(mass))


def test_rank_correlation_is_spearmans():
    maps, masks = example()
    shares = covered(masks, (4, 4))
    expected = [
        spearmanr(a.ravel(), b.ravel()).statistic for a, b in zip(maps, shares, strict=True)
    ]
    assert rank_correlation(maps, masks) == pytest.approx(np.mean(expected))
    assert rank_correlation(np.ones((6, 4, 4)), masks) == 0


def test_who_looks_at_the_object_beats_both_baselines():
    _, masks = example(40)
    maps = covered(masks, (4, 4)) + 0.01
    found = looking(maps, masks)
    assert found["pointing_accuracy"] == 1
    for name in ("pointing_accuracy", "mass_inside", "rank_correlation"):
        assert found[name] > found[f"{name}_shuffled"] + 0.1
        assert found[name] > found[f"{name}_centre"] + 0.1
    assert found["rank_correlation"] == pytest.approx(1.0)


def test_who_looks_anywhere_is_as_good_as_shuffled():
    maps, masks = example(4000)
    found = looking(maps, masks)
    assert abs(found["pointing_accuracy"] - found["pointing_accuracy_shuffled"]) < 0.03


@pytest.mark.parametrize("n", [2, 3, 50])
def test_nobody_is_shuffled_to_their_own_place(n):
    for seed in range(20):
        order = derangement(n, seed)
        assert sorted(order) == list(range(n))
        assert not (order == np.arange(n)).any()


def test_the_centre_is_in_the_middle():
    one = centre_maps(np.zeros((2, 5, 7)))[0]
    assert np.unravel_index(one.argmax(), one.shape) == (2, 3)
    assert np.allclose(one, one[::-1, ::-1])


def test_nss_is_zero_by_chance_and_large_where_people_looked():
    maps = np.zeros((1, 4, 4))
    maps[0, 1, 2] = 1
    there, elsewhere = np.array([[0.6, 0.3]]), np.array([[0.1, 0.9]])
    z = (maps[0] - maps[0].mean()) / maps[0].std()
    assert nss(maps, [there]) == pytest.approx(z[1, 2])
    assert nss(maps, [elsewhere]) == pytest.approx(z[3, 0])
    assert nss(maps, [np.array([[1.0, 1.0]])]) == pytest.approx(z[3, 3])
    assert nss(np.ones((1, 4, 4)), [there]) == 0


def test_attention_distance_by_a_loop():
    rng = np.random.default_rng(1)
    weights = rng.random((2, 6, 6))
    weights /= weights.sum(axis=-1, keepdims=True)
    found = attention_distance(weights, (2, 3), patch=8)
    for head in range(2):
        total = 0.0
        for i in range(6):
            for j in range(6):
                dy, dx = i // 3 - j // 3, i % 3 - j % 3
                total += weights[head, i, j] * 8 * np.hypot(dx, dy)
        assert found[head] == pytest.approx(total / 6)
    assert attention_distance(np.eye(6)[None], (2, 3), patch=8) == 0


def test_similarities_of_positions_are_cosines_by_row_and_column():
    table = np.random.default_rng(0).normal(size=(6, 5))
    found = position_similarities(table, (2, 3))
    for i in range(6):
        for j in range(6):
            cosine = table[i] @ table[j] / np.linalg.norm(table[i]) / np.linalg.norm(table[j])
            assert found[i // 3, i % 3, j // 3, j % 3] == pytest.approx(cosine)
