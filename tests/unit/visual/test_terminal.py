import io

import numpy as np
from looks import payload
from rich.console import Console

from regard.visual.payload import Selected
from regard.visual.terminal import look_text, matrix_text


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
