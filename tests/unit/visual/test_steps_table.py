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
    table = steps_table({**one, "projected": None, "residual": None})
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


def test_where_there_is_a_w_o_every_form_shows_what_it_makes_of_the_sum(one):
    for name, row in zip(("projected", "residual"), steps_table(one).rows[-2:], strict=True):
        first = ", ".join(f"{number:.3f}" for number in one[name][:3])
        assert row[1:] == ("", "", "", "", "", f"({first}, …)")
    for shown in (steps_html(one), steps_svg(one), steps_latex(one), printed(steps_text(one), 80)):
        assert "into stream" in shown
        assert shown.index("into stream") > shown.index("through W") > shown.index("sum")


def test_the_csv_has_every_number_with_all_its_digits(one):
    rows = list(csv.DictReader(io.StringIO(steps_csv(one))))
    names = ("quantity", "token", "position", "index")
    found = {tuple(r[name] for name in names): r["value"] for r in rows}
    assert len(found) == 5 + 5 + 7 + 7 + 4 * (3 + 3 * 5)
    assert float(found["key", EVIL, "1", "4"]) == one["keys"][1][4]
    assert float(found["weighted", "c", "2", "2"]) == one["weighted"][2][2]
    assert float(found["weight", "a", "0", "0"]) == one["weights"][0]
    assert found["score", "</s>", "3", "0"] == ""
    assert float(found["residual", "y", "1", "6"]) == one["residual"][6]


def test_in_the_csv_a_word_that_comes_twice_keeps_its_two_keys_apart():
    twice = steps(payload(source=("a", "b", "a")), 0)
    rows = csv.DictReader(io.StringIO(steps_csv(twice)))
    keys = [
        (r["position"], float(r["value"]))
        for r in rows
        if (r["quantity"], r["token"]) == ("key", "a")
    ]
    assert keys == [(str(s), value) for s in (0, 2) for value in twice["keys"][s]]


@pytest.fixture
def plain(one):
    """The same with short words, as most are."""
    return {**one, "columns": ["a", "street", "c", "</s>"]}


@pytest.mark.parametrize("width", [78, 80, 100, 120, 150])
def test_no_terminal_loses_a_step_or_breaks_a_row(plain, width):
    shown = printed(steps_text(plain, width=width), width)
    for step in ("1 query", "2 key", "3 score", "4 scaled", "5 softmax", "6 weighted"):
        assert step in shown
    assert "value" in shown
    assert max(map(len, shown.splitlines())) <= width
    for name in ("keys", "values", "weighted"):
        assert f"({plain[name][1][0]:.3f}, " in shown  # one number of each vector at least
    rows = [line for line in shown.splitlines() if line.startswith("│")]
    assert len(rows) == (4 if width == 150 else 2 * 4) + 3  # or a line for the value


def test_a_wider_terminal_gets_more_numbers_of_a_vector(plain):
    counts = [printed(steps_text(plain, width=w), w).count(".") for w in (78, 98, 118)]
    assert counts == sorted(set(counts))


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
