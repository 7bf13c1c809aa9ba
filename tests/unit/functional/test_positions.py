import math

import pytest
import torch

from regard.functional.positions import alibi_slopes, rotated, sinusoid


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


def test_a_pair_is_turned_by_the_papers_angle():
    x = torch.tensor([[1.0, 0.0, 0.0, 2.0]])
    for pos in (0, 1, 7):
        fast, slow = float(pos), pos / 10_000 ** (2 / 4)
        wanted = [math.cos(fast), math.sin(fast), -2 * math.sin(slow), 2 * math.cos(slow)]
        torch.testing.assert_close(rotated(x, torch.tensor([pos]))[0], torch.tensor(wanted))


def test_turned_vectors_know_their_distance_and_nothing_else(rng):
    q, k = torch.randn(2, 1, 6, generator=rng)
    product = [
        (rotated(q, torch.tensor([t])) * rotated(k, torch.tensor([t + 3]))).sum()
        for t in (0, 5, 100)
    ]
    torch.testing.assert_close(product[1:], [product[0]] * 2, rtol=1e-4, atol=1e-5)
    assert not torch.isclose(product[0], (q * k).sum())
    torch.testing.assert_close(rotated(q, torch.tensor([9])).norm(), q.norm())


@pytest.mark.parametrize("n_heads", [1, 3, 8])
def test_slopes_are_the_papers_sequence(n_heads):
    wanted = [2 ** (-8 * (head + 1) / n_heads) for head in range(n_heads)]
    torch.testing.assert_close(alibi_slopes(n_heads).tolist(), wanted)
