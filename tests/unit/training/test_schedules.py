"""Learning rates over the steps of a training."""

import math

import pytest

from regard.training.schedules import SCHEDULES
from regard.training.settings import TrainSettings


def shares(schedule, steps, **settings):
    """Of a highest rate of 1."""
    settings = {"max_steps": 110, "warmup_steps": 10, **settings}
    made = TrainSettings(lr=1.0, schedule=schedule, **settings)
    return [made.rate_at(step, 512) for step in steps]


def test_by_default_it_is_the_papers_formula():
    settings = TrainSettings(max_steps=1, warmup_steps=40)
    assert settings.schedule == "inverse_sqrt"
    for step in (1, 7, 40, 41, 400, 10_000):
        wanted = 512**-0.5 * min(step**-0.5, step * 40**-1.5)
        assert math.isclose(settings.rate_at(step, 512), wanted)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_every_schedule_rises_evenly_and_begins_to_fall_from_the_top(schedule):
    before, at, after = shares(schedule, [5, 10, 11])
    assert (before, at) == (0.5, 1.0)
    assert 0.9 < after <= 1.0


def test_linear_falls_to_almost_nothing_at_the_last_step():
    middle, last = shares("linear", [60, 110])
    assert middle == pytest.approx(51 / 101)
    assert 0 < last < 0.02


def test_cosine_falls_slowly_then_fast_then_slowly_to_almost_nothing():
    assert shares("cosine", [10, 35.25, 60.5, 85.75]) == pytest.approx(
        [1, (2 + math.sqrt(2)) / 4, 0.5, (2 - math.sqrt(2)) / 4]
    )
    assert 0 < shares("cosine", [110])[0] < 0.001


def test_constant_stays():
    assert shares("constant", [100, 10_000]) == [1.0, 1.0]
    assert TrainSettings(max_steps=1, lr=0.3).highest_rate(512) == 0.3
