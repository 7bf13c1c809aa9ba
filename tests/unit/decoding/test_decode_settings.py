import os
import subprocess
import sys

import pytest
from pydantic import ValidationError

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
