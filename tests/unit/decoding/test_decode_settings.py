import os
import subprocess
import sys

import pytest
from pydantic import ValidationError

from regard.core.errors import ConfigError
from regard.decoding.settings import DecodeSettings


def test_defaults_are_greedy_with_the_papers_penalty():
    settings = DecodeSettings()
    assert (settings.beam, settings.length_penalty, settings.max_len) == (1, 0.6, 256)


@pytest.mark.parametrize(
    "wrong",
    [
        {"beam": 0},
        {"length_penalty": -0.1},
        {"length_penalty": float("inf")},
        {"max_len": 0},
        {"beams": 4},
        {"temperature": -1.0},
        {"top_k": 0},
        {"top_p": 1.5},
        {"seed": -1},
        {"coverage_penalty": -0.1},
        {"stop": "last"},
    ],
)
def test_impossible_and_unknown_settings_are_refused_by_name(wrong):
    with pytest.raises(ValidationError, match=next(iter(wrong))):
        DecodeSettings(**wrong)


def test_settings_cannot_be_changed():
    with pytest.raises(ValidationError, match="frozen"):
        DecodeSettings().beam = 4


def test_every_setting_is_described_in_the_schema():
    for name, field in DecodeSettings.model_json_schema()["properties"].items():
        assert field.get("description"), name


def test_settings_load_without_torch():
    code = "import sys, regard.decoding.settings; sys.exit('torch' in sys.modules)"
    path = os.pathsep.join(sys.path)
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path})
    assert done.returncode == 0


@pytest.mark.parametrize("asked", [{"temperature": 0.7}, {"top_k": 5}, {"top_p": 0.9}])
def test_sampling_with_a_beam_is_refused_in_one_line(asked):
    with pytest.raises(ConfigError) as caught:
        DecodeSettings().chosen(beam=4, **asked)
    assert str(caught.value) == (
        "sampling keeps no beam: leave out beam=4, or temperature, top_k and top_p"
    )
    assert DecodeSettings(**asked).samples
    assert DecodeSettings(beam=4, temperature=0.0).beam == 4  # nothing is drawn


def test_what_is_chosen_takes_the_place_of_what_the_recipe_says():
    beam, draws = DecodeSettings(beam=4, length_penalty=1.0), DecodeSettings(temperature=0.7)
    assert beam.chosen(temperature=None) is beam
    assert (beam.chosen(top_k=3).beam, beam.chosen(top_k=3).length_penalty) == (1, 1.0)
    assert draws.chosen(beam=2).temperature is None
    assert draws.chosen(seed=3).temperature == 0.7
    with pytest.raises(ConfigError, match=r"decode\.beam=0: .*greater than or equal to 1"):
        beam.chosen(beam=0)


def test_the_temperature_is_1_where_only_cuts_are_told():
    assert DecodeSettings(top_k=3).temperature_or(0.0) == 1.0
    assert DecodeSettings().temperature_or(0.0) == 0.0
    assert DecodeSettings(temperature=0.3).temperature_or(1.0) == 0.3
    assert not DecodeSettings(temperature=0.0, top_k=3).samples


def test_a_beam_wider_than_the_vocabulary_is_refused_in_one_line():
    DecodeSettings(beam=13).check_vocabulary(13)
    with pytest.raises(ConfigError, match="^a beam of 14 is wider than the vocabulary of 13 tok"):
        DecodeSettings(beam=14).check_vocabulary(13)
