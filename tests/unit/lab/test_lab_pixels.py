"""Attention over pixels without weights: mean shift, and the objects it finds."""

import numpy as np
import pytest
import torch

from regard.lab.claims.pixels import adjusted_rand, attend_to_alike, groups, pixels


def test_the_claim_holds_and_fails_where_every_pixel_looks_everywhere():
    few = {"n_scenes": 3, "size": 24, "n_layers": 2}
    assert pixels(**few).verdict
    assert not pixels(**few, sharpness=0.1).verdict


def test_a_look_is_a_step_of_mean_shift():
    x = torch.rand(12, 3).double()
    found, weights = attend_to_alike(x, 30.0)
    kernel = torch.exp(-30.0 * torch.cdist(x, x).square() / 2)
    torch.testing.assert_close(weights, kernel / kernel.sum(dim=1, keepdim=True))
    torch.testing.assert_close(found, weights @ x)


def test_like_pixels_are_one_group():
    x = np.array([[0.0, 0, 0], [0.9, 0, 0], [0.01, 0, 0], [0.95, 0, 0]])
    found = groups(x)
    assert found[0] == found[2] != found[1] == found[3]


def test_the_rand_index_by_counting_pairs():
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 3, 40), rng.integers(0, 3, 40)
    both = a_pairs = b_pairs = 0
    for i in range(40):
        for j in range(i):
            both += a[i] == a[j] and b[i] == b[j]
            a_pairs += a[i] == a[j]
            b_pairs += b[i] == b[j]
    expected = a_pairs * b_pairs / (40 * 39 / 2)
    index = (both - expected) / ((a_pairs + b_pairs) / 2 - expected)
    assert adjusted_rand(a, b) == pytest.approx(index)
    assert adjusted_rand(a, a) == 1
