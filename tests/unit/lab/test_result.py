import inspect
import json
import re
import shlex
from pathlib import Path

import pytest

from regard import lab
from regard.core.errors import ConfigError
from regard.lab import claims
from regard.lab.keywords import keywords
from regard.lab.result import Result, write_page


def test_a_result_shows_its_claim_its_verdict_and_its_picture():
    result = lab.rows()
    html = result._repr_html_()
    assert result.claim in html
    assert "The claim holds." in html
    assert html.count("<svg") == len(result.pictures) == 2


def test_a_refuted_claim_says_so():
    shown = Result("rows", False, "a < b", {"x": 1}, ())._repr_html_()
    assert "The claim does not hold." in shown
    assert "a &lt; b" in shown


def test_a_page_says_of_a_refuted_claim_what_the_command_says(tmp_path):
    write_page([Result("rows", False, "no", {"x": 1}, ())], tmp_path)
    page = (tmp_path / "index.html").read_text()
    assert re.search(r"<li><a [^>]*>rows</a> <strong[^>]*>does not hold</strong>", page)
    assert "fails" not in page


def test_a_result_is_plain_json():
    facts = lab.rows().as_json()
    assert json.loads(json.dumps(facts)) == facts
    assert {"name", "claim", "verdict", "numbers"} <= set(facts)


def test_an_unknown_experiment_is_answered_with_the_nearest():
    with pytest.raises(ConfigError, match="rows"):
        lab.claim("rws")


def test_every_experiment_has_its_file_and_every_file_its_place_on_the_wall():
    written = {path.stem for path in Path(claims.__path__[0]).glob("*.py")} - {"__init__"}
    assert written == set(lab.NAMES)


@pytest.mark.parametrize("name", lab.NAMES)
def test_every_experiment_says_why_it_matters_and_what_to_try(name):
    lesson = lab.LESSONS[name]
    assert all(30 < len(text) < 120 and text.endswith(".") for text in (lesson.why, lesson.expect))
    program, verb, named, *settings = shlex.split(lesson.command)
    assert (program, verb, named) == ("regard", "lab", name)
    assert settings[::2] == ["--set"] * (len(settings) // 2)
    found = keywords(name, settings[1::2])
    defaults = inspect.signature(lab.experiment(name)).parameters
    assert any(defaults[key].default != value for key, value in found.items())


def test_a_keyword_is_of_the_type_that_the_experiment_asks_for():
    assert keywords("recall", ["gaps=[3, 5]", "seed=2"]) == {"gaps": [3, 5], "seed": 2}


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("axes=1", "unknown setting 'axes' (did you mean 'axis'?)"),
        ("axis=high", "axis='high': input should be a valid integer"),
        ("axis", "--set takes key=value, got 'axis'"),
        ("axis=[", "--set axis=[: no YAML value"),
    ],
)
def test_a_setting_that_an_experiment_does_not_have_is_refused(setting, told):
    with pytest.raises(ConfigError) as error:
        keywords("rows", [setting])
    assert told in str(error.value)
