import numpy as np
import pytest

from regard.lab.differences import Difference, difference, of_trainings


def test_an_interval_is_as_wide_as_the_luck_of_the_sentences():
    rng = np.random.default_rng(1)
    found = difference(rng.normal(1.0, 2.0, 400))
    assert found.mean == pytest.approx(1.0, abs=0.3)
    assert found.high - found.low == pytest.approx(2 * 1.96 * 2.0 / np.sqrt(400), rel=0.15)
    assert found.low < found.mean < found.high


def test_trainings_that_differ_widen_it_however_many_sentences_there_are():
    one = np.ones(1000)
    assert difference(np.stack([one, one, one])).within(1.1)
    apart = difference(np.stack([0 * one, one, 2 * one]))
    assert apart == pytest.approx((1.0, -1.484, 3.484), abs=1e-3)  # 1 ± 4.303 / √3


@pytest.mark.parametrize("n", [2, 3, 5])
def test_of_a_hundred_intervals_ninety_five_hold_the_truth(n):
    rng = np.random.default_rng(2)
    held = 0
    for _ in range(1000):
        trainings, sentences = rng.normal(0, 0.1, (n, 1)), rng.normal(0, 0.5, (1, 100))
        found = difference(0.3 + trainings + sentences + rng.normal(0, 0.2, (n, 100)))
        held += found.low < 0.3 < found.high
    assert held >= 930


def test_what_is_surely_above_zero_and_what_is_surely_small():
    assert Difference(0.2, 0.1, 0.3).positive
    assert not Difference(0.2, -0.1, 0.5).positive
    assert Difference(0.0, -0.05, 0.05).within(0.1)
    assert not Difference(0.0, -0.2, 0.05).within(0.1)
    assert not Difference(0.0, -0.05, 0.2).within(0.1)


def test_it_is_said_what_was_drawn():
    assert "not over trainings" in of_trainings(1)
    assert of_trainings(3).startswith("3 trainings each")
