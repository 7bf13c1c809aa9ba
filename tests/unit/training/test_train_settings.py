"""What the section ``train`` takes."""

import pytest

from regard.core.errors import ConfigError
from regard.core.settings import parse
from regard.training.optimisers import OPTIMISERS
from regard.training.schedules import SCHEDULES
from regard.training.settings import TrainSettings


@pytest.mark.parametrize("compiled", ["auto", True, False])
def test_compiling_is_a_choice_of_three(compiled):
    assert TrainSettings(max_steps=1, compile=compiled).compile == compiled


@pytest.mark.parametrize("compiled", ["maybe", 1, None])
def test_what_compiling_cannot_be_is_told_in_one_phrase(compiled):
    with pytest.raises(ValueError, match="expected auto, true or false") as told:
        TrainSettings(max_steps=1, compile=compiled)
    assert len(told.value.errors()) == 1


@pytest.mark.parametrize("schedule", ["linear", "cosine"])
def test_what_falls_to_an_end_needs_one(schedule):
    with pytest.raises(ValueError, match=f"'{schedule}' falls to zero at train.max_steps"):
        TrainSettings(max_minutes=1, schedule=schedule)


def test_the_former_name_of_a_schedule_is_read():
    assert TrainSettings(max_steps=1, schedule="noam").schedule == "inverse_sqrt"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"schedule": "cosin"}, "unknown schedule 'cosin' .did you mean 'cosine'.*known: inverse"),
        ({"optimiser": "adan"}, "unknown optimiser 'adan' .did you mean 'adam.*known: adamw, adam"),
        (
            {"optimiser_options": {"beta": 1}},
            "unknown setting 'beta' .did you mean 'betas'",
        ),
        ({"optimiser": "sgd", "optimiser_options": {"betas": [0, 0]}}, "known: momentum, nesterov"),
        ({"optimiser_options": {"eps": -1}}, "eps=-1: input should be greater than 0"),
        ({"clip": -1}, "clip"),
    ],
)
def test_what_is_not_there_is_answered_in_one_line_with_what_is(wrong, message):
    with pytest.raises(ConfigError, match=message) as told:
        parse(TrainSettings, {"max_steps": 1, **wrong}, "train")
    assert "\n" not in str(told.value)


def test_options_are_complete_and_survive_being_written_down():
    settings = TrainSettings(max_steps=1, optimiser_options={"eps": 1e-8})
    assert settings.optimiser_options == {"betas": (0.9, 0.98), "eps": 1e-8}
    assert TrainSettings(**settings.model_dump(mode="json")) == settings


def test_the_schema_lists_what_can_be_named():
    properties = TrainSettings.model_json_schema()["properties"]
    assert properties["optimiser"]["enum"] == [*OPTIMISERS]
    assert properties["schedule"]["enum"] == [*SCHEDULES]
