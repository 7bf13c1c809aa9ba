import csv
import io
from xml.etree import ElementTree

import pytest
from looks import EVIL, payload, steps
from rich.console import Console

from regard.visual.steps_table import (
    steps_csv,
    steps_html,
    steps_latex,
    steps_svg,
    steps_table,
    steps_text,
)


@pytest.fixture
def one():
    return steps(payload(), 1)


def printed(table, width):
    file = io.StringIO()
    Console(file=file, width=width).print(table)
    return file.getvalue()


def test_there_is_a_row_a_key_and_one_for_the_sum(one):
    table = steps_table(one)
    assert [row[0] for row in table.rows] == ["a", EVIL, "c", "</s>", "sum"]
    assert [row[4] for row in table.rows[:-1]] == [f"{weight:.3f}" for weight in one["weights"]]
    assert table.rows[0][2] == f"{one['scores'][0]:.3f}"
    assert table.rows[0][3] == f"{one['scores'][0] / 2:.3f}"
    assert table.rows[3][2:4] == ("–", "–")
    assert table.rows[-1][4] == "1.000"
    first = ", ".join(f"{number:.3f}" for number in one["sum"][:3])
    assert table.rows[-1][6] == f"({first}, …)"
    assert "y in decoder.cross, layer 1, head 0" in table.caption
    assert "scores × 0.5" in table.caption


def test_the_csv_has_every_number_with_all_its_digits(one):
    rows = list(csv.DictReader(io.StringIO(steps_csv(one))))
    found = {(r["quantity"], r["token"], int(r["index"])): r["value"] for r in rows}
    assert len(found) == 5 + 5 + 7 + 7 + 4 * (3 + 3 * 5)
    assert float(found["key", EVIL, 4]) == one["keys"][1][4]
    assert float(found["weighted", "c", 2]) == one["weighted"][2][2]
    assert float(found["weight", "a", 0]) == one["weights"][0]
    assert found["score", "</s>", 3] == ""
    assert float(found["residual", "y", 6]) == one["residual"][6]


def test_a_narrow_terminal_gets_fewer_columns_and_no_broken_rows(one):
    wide, narrow = printed(steps_text(one, width=150), 150), printed(steps_text(one, width=80), 80)
    assert "2 key" in wide
    assert "2 key" not in narrow
    assert "5 softmax" in narrow
    assert max(map(len, narrow.splitlines())) <= 80
    assert "through W_o" in narrow


def test_html_svg_and_latex_show_tokens_as_text(one):
    assert "<img" not in steps_html(one)
    assert "<script" not in steps_html(one)
    root = ElementTree.fromstring(steps_svg(one))
    assert EVIL in [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
    assert r"\textless{}img src=x onerror=alert(1)\textgreater{}" in steps_latex(one)


def test_a_window_that_multiplies_is_named(one):
    assert "5 softmax" in steps_table(one).header
    local = {**one, "prior": [0.5] * 4, "scale": None}
    assert "5 softmax × prior" in steps_table(local).header
    assert "not scaled" in steps_table(local).caption
