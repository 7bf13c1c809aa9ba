import csv
import io

import pytest

from regard.visual.tables import DEFINITION, Table, csv_table, latex_table, latex_text

ODD = Table(
    "100 % of en_fr",
    ["System", "BLEU", 'a "quoted", name'],
    [["a & b", "98.2 ± 0.3", "x,y"], ["[c]", "–", 'line\nbreak and "quotes"'], ["", "", ""]],
)


def test_csv_gives_back_every_cell():
    assert list(csv.reader(io.StringIO(csv_table(ODD)))) == [list(ODD.header), *ODD.rows]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a_b", r"a\_b"),
        ("50 % & $3 #1 {x}", r"50 \% \& \$3 \#1 \{x\}"),
        ("\\alpha", r"\textbackslash{}alpha"),
        ("x^2 ~ y|z", r"x\textasciicircum{}2 \textasciitilde{} y\textbar{}z"),
        ("<unk>", r"\textless{}unk\textgreater{}"),
        ("98.2 ± 0.3", r"98.2 \ensuremath{\pm} 0.3"),
        ("98.2\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}0.3", r"98.2~\ensuremath{\pm}~0.3"),
        ("6–10 × 2", r"6\textendash{}10 \ensuremath{\times} 2"),
        ("a--b---c", "a-{}-b-{}-{}-c"),
        (
            "▁the `∅` Δ",
            r"\textvisiblespace{}the \textasciigrave{}\ensuremath{\emptyset}"
            r"\textasciigrave{} \ensuremath{\Delta}",
        ),
        ("ete\N{COMBINING ACUTE ACCENT} œuvre “q” €5", "eté œuvre “q” €5"),
        ("中", r"\regardchar{中}{U+4E2D}"),
        ("\N{GRINNING FACE}", "\\regardchar{\N{GRINNING FACE}}{U+1F600}"),
        ("a\a\tb\N{RIGHT-TO-LEFT MARK}", "aU+0007 bU+200F"),
        ("[1]*", "{[}1]{*}"),
        ("two\nlines", "two lines"),
        ("élève", "élève"),
    ],
)
def test_latex_shows_every_character_as_itself(text, wanted):
    assert latex_text(text) == wanted


def test_a_latex_table_has_a_column_and_a_row_for_each():
    lines = latex_table(ODD).splitlines()
    assert r"\begin{tabular}{lrr}" in lines
    rows = [line for line in lines if line.endswith(r" \\")]
    assert len(rows) == 4
    assert all(row.replace(r"\&", "").count("&") == 2 for row in rows)
    assert r"a \& b & 98.2 \ensuremath{\pm} 0.3 & x,y \\" in rows
    assert r"\caption{100 \% of en\_fr}" in lines


def test_what_shows_rare_characters_is_defined_where_it_is_needed():
    assert r"\regardchar" not in latex_table(ODD)
    first, second, *_ = latex_table(Table("", ["日"], [])).splitlines()
    assert first == DEFINITION
    assert second == r"\begin{table}"


@pytest.mark.parametrize(
    ("n_columns", "size"), [(4, None), (10, r"\small"), (12, r"\scriptsize"), (40, r"\tiny")]
)
def test_the_wider_a_table_the_smaller_its_letters(n_columns, size):
    lines = latex_table(Table("", ["0.123"] * n_columns, [["0.123"] * n_columns])).splitlines()
    assert (lines[2] == size) == (size is not None)
    assert (size is None) == lines[2].startswith(r"\begin{tabular}")


def test_what_latex_begins_it_ends():
    text = latex_table(ODD)
    for name in ("table", "tabular"):
        assert text.count(rf"\begin{{{name}}}") == text.count(rf"\end{{{name}}}") == 1
    plain = text.replace(r"\{", "").replace(r"\}", "")
    assert plain.count("{") == plain.count("}")
