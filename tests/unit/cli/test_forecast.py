"""A comparison says first what there is to do, and then how long the rest will take."""

from itertools import count

import pytest

from regard.cli.compare import Forecast, forecast
from regard.runs.compare import contest
from regard.runs.estimate import parse_budget
from regard.runs.trainings import Work
from regard.training.settings import TrainSettings

SETTINGS = TrainSettings(max_steps=3)


@pytest.fixture
def told(capsys):
    return lambda: capsys.readouterr().err.splitlines()


def test_minutes_are_known_from_the_start(told):
    Forecast(parse_budget("10min"), {"a": 1.75, "b": 1.0}).say("first")
    assert told() == ["regard: 2.75 × 10min to go, or more: about 27.5 min", "regard: first"]


def test_flops_say_nothing_of_the_time_until_a_training_is_done(told):
    ticks = (60.0 * n for n in count())  # each training takes a minute
    expected = Forecast(parse_budget("3e12flops"), {"a": 1.0, "b": 1.0}, lambda: next(ticks))
    expected.say("first")
    assert told()[0].endswith(
        "2 × 3e12flops to go, or more: how long that takes is told after the first training"
    )
    for share, left in ((0.25, 0.75), (0.75, 0.0)):
        with expected.watching(SETTINGS, Work("a", share, left)):
            pass
    # a quarter took a minute, so seven quarters take seven; then one budget two minutes
    assert told() == ["regard: about 7.0 min to go", "regard: about 2.0 min to go"]
    with expected.watching(SETTINGS, Work("b", 1.0, 0.0)):
        pass
    assert told() == []
    expected.say("last")
    assert told() == ["regard: last"]


def test_a_training_that_failed_is_not_waited_for(told):
    ticks = (60.0 * n for n in count())
    expected = Forecast(parse_budget("5e6tokens"), {"a": 2.0}, lambda: next(ticks))
    with pytest.raises(ZeroDivisionError), expected.watching(SETTINGS, Work("a", 1.0, 1.0)):
        raise ZeroDivisionError
    assert told() == []
    with expected.watching(SETTINGS, Work("a", 1.0, 1.0)):
        pass
    assert told() == ["regard: about 60 s to go"]


def test_what_is_finished_is_not_counted(tmp_path, told):
    asked = contest(["transformer", "luong2015"], "sentences", parse_budget("2min"), [1, 2])
    forecast(asked, tmp_path).say("")
    assert "7.75 × 2min to go, or more: about 15.5 min" in told()[0]  # 2 × (3/8 + 3/2 + 2)
    finished(tmp_path / "transformer" / "seed-2")  # so a rate was chosen
    forecast(asked, tmp_path).say("")
    assert "4.875 × 2min" in told()[0]
    finished(tmp_path / "luong2015" / "lr-0.003-0.5")
    forecast(asked, tmp_path).say("")
    assert "4.375 × 2min" in told()[0]


def finished(folder):
    folder.mkdir(parents=True)
    for name in ("config.yaml", "scores.json"):
        (folder / name).write_text("{}")


def test_where_all_is_finished_that_is_said_once(tmp_path, told):
    asked = contest(["transformer"], "sentences", parse_budget("2min"), [1])
    finished(tmp_path / "transformer" / "seed-1")
    expected = forecast(asked, tmp_path)
    expected.say("learning rate 8 was too high")
    expected.over()
    done = "regard: all trainings were done already"
    assert told() == [done, "regard: learning rate 8 was too high"]
    forecast(asked, tmp_path).over()
    assert told() == [done]
    Forecast(parse_budget("2min"), {"a": 1.0}).over()  # it has failed, and that was told
    assert told() == []
