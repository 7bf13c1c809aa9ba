import csv
import io
import json

import numpy as np
import pytest
from looks import payload, steps

import regard
from regard.visual.look_files import look_file, steps_file
from regard.visual.payload import Selected

CHOSEN = Selected("decoder.self", 0, 1)


def test_csv_holds_the_selected_matrix_with_all_digits():
    look = payload()
    rows = list(csv.reader(io.StringIO(look_file(look, "csv", selected=CHOSEN))))
    assert rows[0] == ["decoder.self, layer 0, head 1", "<s>", "x", "y"]
    assert [row[0] for row in rows[1:]] == ["x", "y", "</s>"]
    numbers = [[float(cell) for cell in row[1:]] for row in rows[1:]]
    np.testing.assert_array_equal(numbers, look["attentions"]["decoder.self"][0][1])


def test_latex_and_svg_name_what_they_show():
    for form in ("tex", "svg"):
        assert "decoder.self, layer 0, head 1" in look_file(payload(), form, selected=CHOSEN)
        assert "mean of 3 heads" in look_file(payload(), form)


def test_json_is_the_payload_and_takes_steps_in():
    look = payload()
    assert json.loads(look_file(look, "json")) == look
    one = steps(look, 0)
    assert json.loads(steps_file(look, one, "json")) == {**look, "steps": one}


@pytest.mark.parametrize(
    ("form", "sign"), [("svg", "<svg"), ("csv", "quantity"), ("tex", "\\begin")]
)
def test_steps_have_files_of_their_own(form, sign):
    look = payload()
    assert steps_file(look, steps(look, 0), form).startswith(sign)


def test_html_carries_the_steps_it_is_given():
    look = payload()
    page = look_file(look, "html", steps=iter([steps(look, 0)]), selected=CHOSEN)
    assert '"steps":[{"name":"decoder.cross"' in page
    assert '"selected":{"name":"decoder.self","layer":0,"head":1,"token":null}' in page


def test_an_unknown_form_is_refused_with_the_known_ones():
    with pytest.raises(regard.ConfigError, match=r"\.html, \.svg, .* not as \.htm .*'html'"):
        look_file(payload(), "htm")
