import math

import pytest
import torch

from regard.functional.positions import sinusoid


@pytest.mark.parametrize("d", [2, 7, 12])
def test_sinusoids_are_the_papers_formula(d):
    got = sinusoid(torch.arange(20), d)
    for pos in range(20):
        for j in range(d):
            angle = pos / 10_000 ** ((j - j % 2) / d)
            wanted = math.cos(angle) if j % 2 else math.sin(angle)
            assert math.isclose(got[pos, j], wanted, abs_tol=1e-6)


def test_the_first_position_is_zero():
    assert sinusoid(torch.arange(1), 6).tolist() == [[0, 1, 0, 1, 0, 1]]


def test_far_positions_keep_their_precision():
    angle = 50_000 / 10_000 ** (2 / 8)
    assert math.isclose(sinusoid(torch.tensor([50_000]), 8)[0, 2], math.sin(angle), abs_tol=1e-6)
