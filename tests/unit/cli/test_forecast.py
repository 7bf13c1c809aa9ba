"""A comparison says first what there is to do, and then how long the rest will take."""

from itertools import count

import pytest

from regard.cli.compare import Forecast, forecast
from regard.runs.compare import contest
from regard.runs.estimate import parse_budget
from regard.training.settings import TrainSettings

SETTINGS = TrainSettings(max_steps=3)


@pytest.fixture
def told(capsys):
    return lambda: capsys.readouterr().err.splitlines()


def test_minutes_are_known_from_the_start(told):
    Forecast(parse_budget("10min"), [0.25, 0.25, 0.25, 1.0, 1.0]).say("first")
    assert told() == [
        "regard: 5 trainings to go, 2.75 × 10min in all: about 27.5 min",
        "regard: first",
    ]


def test_flops_say_nothing_of_the_time_until_a_training_is_done(told):
    ticks = (60.0 * n for n in count())  # each training takes a minute
    expected = Forecast(parse_budget("3e12flops"), [0.25, 0.75, 1.0], lambda: next(ticks))
    expected.say("first")
    assert told()[0].endswith("2 × 3e12flops in all: how long that takes is told after the first")
    for _ in range(3):
        with expected.watching(SETTINGS):
            pass
    # a quarter took a minute, so seven quarters take seven; then one budget two minutes
    assert told() == ["regard: about 7.0 min to go", "regard: about 2.0 min to go"]
    expected.say("last")
    assert told() == ["regard: last"]


def test_a_training_that_failed_is_not_waited_for(told):
    ticks = (60.0 * n for n in count())
    expected = Forecast(parse_budget("5e6tokens"), [1.0, 1.0, 1.0], lambda: next(ticks))
    with pytest.raises(ZeroDivisionError), expected.watching(SETTINGS):
        raise ZeroDivisionError
    assert told() == []
    with expected.watching(SETTINGS):
        pass
    assert told() == ["regard: about 60 s to go"]


def test_what_is_finished_is_not_counted(tmp_path, told):
    asked = contest(["transformer", "luong2015"], "sentences", parse_budget("2min"), [1, 2])
    forecast(asked, tmp_path).say("")
    assert "10 trainings to go, 5.5 × 2min in all: about 11.0 min" in told()[0]
    from regard.runs.compare import learning_rates

    rates = learning_rates(asked.systems["transformer"])
    for name in (*(f"lr-{rate:g}" for rate in rates), "seed-2"):
        folder = tmp_path / "transformer" / name
        folder.mkdir(parents=True)
        (folder / "scores.json").write_text("{}")
    forecast(asked, tmp_path).say("")
    assert "6 trainings to go, 3.75 × 2min" in told()[0]
