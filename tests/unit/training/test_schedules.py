import math

import pytest

from regard.training.schedules import highest, share
from regard.training.settings import TrainSettings


def test_noam_is_the_papers_formula():
    settings = TrainSettings(max_steps=1, warmup_steps=40)
    for step in (1, 7, 40, 41, 400, 10_000):
        wanted = 512**-0.5 * min(step**-0.5, step * 40**-1.5)
        assert math.isclose(highest(settings, 512) * share(step, settings), wanted)


def test_linear_falls_to_almost_nothing_at_the_last_step():
    settings = TrainSettings(max_steps=110, warmup_steps=10, schedule="linear")
    assert share(5, settings) == 0.5
    assert share(10, settings) == 1.0
    assert 0 < share(110, settings) < 0.02
    assert share(60, settings) == pytest.approx(51 / 101)


def test_constant_stays():
    settings = TrainSettings(max_steps=110, warmup_steps=10, schedule="constant", lr=0.3)
    assert share(100, settings) == 1.0
    assert highest(settings, 512) == 0.3
