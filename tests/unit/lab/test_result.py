import json
import re

import pytest

from regard import lab
from regard.core.errors import ConfigError
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
    assert re.search(r"<td><strong[^>]*>does not hold</strong></td>", page)
    assert "fails" not in page


def test_a_result_is_plain_json():
    facts = lab.rows().as_json()
    assert json.loads(json.dumps(facts)) == facts
    assert {"name", "claim", "verdict", "numbers"} <= set(facts)


def test_an_unknown_experiment_is_answered_with_the_nearest():
    with pytest.raises(ConfigError, match="rows"):
        lab.claim("rws")
