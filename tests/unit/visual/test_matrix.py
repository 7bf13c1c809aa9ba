"""A matrix of weights as SVG and in a terminal."""

import io
import re
from xml.etree import ElementTree

import numpy as np
from looks import payload
from rich.console import Console

from regard.visual.matrix import look_text, matrix, matrix_text
from regard.visual.payload import Selected

SVG = "{http://www.w3.org/2000/svg}"


def drawn(weights, rows, columns):
    return ElementTree.fromstring(matrix(weights, rows, columns, title="a <b>"))


def test_every_cell_tells_its_number_and_is_as_strong():
    root = drawn([[0.25, 0.75, 0.0], [1.0, 0.0, 0.125]], ["x", "y"], ["p", "q", "r"])
    cells = root.findall(f"{SVG}rect")
    assert [cell.find(f"{SVG}title").text for cell in cells] == [
        "x → p: 0.250", "x → q: 0.750", "x → r: 0.000",
        "y → p: 1.000", "y → q: 0.000", "y → r: 0.125",
    ]  # fmt: skip
    assert [float(cell.get("fill-opacity")) for cell in cells] == [0.25, 0.75, 0, 1, 0, 0.125]


def test_rows_go_down_and_columns_across():
    cells = drawn([[0.1, 0.2], [0.3, 0.4]], ["x", "y"], ["p", "q"]).findall(f"{SVG}rect")
    places = [(float(cell.get("x")), float(cell.get("y"))) for cell in cells]
    assert places[0][0] == places[2][0] < places[1][0] == places[3][0]
    assert places[0][1] == places[1][1] < places[2][1] == places[3][1]


def test_tokens_are_text_whatever_they_say():
    picture = matrix([[1.0]], ["<script>alert(1)</script>"], ["&"], title="t")
    assert "<script>" not in picture
    names = [text.text for text in ElementTree.fromstring(picture).findall(f"{SVG}text")]
    assert set(names) == {"t", "&", "<script>alert(1)</script>"}


def test_sixty_tokens_do_not_overlap():
    names = [f"word{i}" for i in range(60)]
    root = drawn([[0.0] * 60] * 60, names, names)
    cells = root.findall(f"{SVG}rect")
    assert len({(cell.get("x"), cell.get("y")) for cell in cells}) == 3600
    width = float(re.search(r"0 0 (\d+)", root.get("viewBox"))[1])
    assert width > 60 * 25


def printed(text, **options):
    file = io.StringIO()
    Console(file=file, width=200, **options).print(text, end="")
    return file.getvalue()


def test_digits_are_tenths_rounded_down_and_names_stand_on_both_sides():
    weights = [[0.04, 0.17, 0.79], [1.0, 0.0, 0.0]]
    lines = matrix_text(weights, ["ja", "nein"], ["a", "bc", "d"]).plain.splitlines()
    assert [line.rstrip() for line in lines] == [
        "       b",
        "     a c d",
        "  ja · 1 7",
        "nein 9 · ·",
    ]


def test_wide_matrices_are_cut_into_pieces_of_columns():
    weights = np.eye(3, 11)
    names = list("abcdefghijk")
    text = matrix_text(weights, ["x", "y", "z"], names, width=12)
    lines = text.plain.splitlines()
    assert max(map(len, lines)) <= 12
    heads = [line for line in lines if line.strip() and set(line) <= set("abcdefghijk ")]
    assert "".join("".join(head.split()) for head in heads) == "abcdefghijk"
    assert sum(line.count("9") for line in lines) == 3


def test_colours_are_24_bit_where_the_terminal_has_them_and_none_where_not():
    text = matrix_text([[0.0, 1.0]], ["x"], ["a", "b"])
    colourful = printed(text, force_terminal=True, color_system="truecolor")
    assert "48;2;0;32;76" in colourful
    assert "48;2;255;233;69" in colourful
    other = matrix_text([[0.3, 0.4]], ["x"], ["a", "b"])  # rich keeps the codes of known styles
    assert "48;5;" in printed(other, force_terminal=True, color_system="256")
    assert "\x1b" not in printed(text)


def test_a_token_cannot_steer_the_terminal():
    text = look_text(payload(("\x1b[2J", "a\nb"), ("\x07",)))
    assert "\x1b" not in text.plain
    assert "\x07" not in text.plain
    assert "a↵b" in text.plain


def test_what_is_selected_is_shown():
    look = payload()
    text = look_text(look, Selected("decoder.self", 0, 2)).plain
    assert "decoder.self, layer 0, head 2" in text
    expected = matrix_text(
        look["attentions"]["decoder.self"][0][2], ["x", "y", "</s>"], ["<s>", "x", "y"]
    )
    assert text.endswith(expected.plain)


def test_wide_letters_keep_the_columns_in_line():
    lines = matrix_text([[0.5, 0.5]], ["猫"], ["犬", "a"]).plain.splitlines()
    assert lines == ["   犬a ", "猫 5 5 "]


def test_a_system_that_does_not_attend_says_so():
    assert "does not attend" in look_text({**payload(), "attentions": {}}).plain


def test_with_named_axes_weights_are_written_in_and_the_ink_has_a_scale():
    shown = matrix([[0.25, 1.0]], ["il"], ["the", "cat"], title="t", axes=("target", "source"))
    root = ElementTree.fromstring(shown)
    texts = [one.text for one in root.iter(f"{SVG}text")]
    assert "target ↓  looks at source →" in texts
    assert {".25", "1", "1  weight"} <= set(texts)
    assert ">.25<" not in matrix([[0.25, 1.0]], ["il"], ["the", "cat"], title="t")
