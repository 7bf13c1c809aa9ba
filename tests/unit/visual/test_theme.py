"""One file says how everything looks; no renderer restates it."""

import json
import re
from importlib.resources import files
from pathlib import Path

import pytest
from looks import payload

from regard.visual import theme
from regard.visual.matrix import look_text
from regard.visual.theme import (
    PALETTE,
    WEIGHTS,
    colour_of,
    number,
    page_css,
    theme_css,
    theme_js,
    weight_rgb,
)

VISUAL = Path(str(files("regard.visual")))
PAGE = Path(str(files("regard.server"))) / "page"
COLOUR = re.compile(r"#[0-9a-fA-F]{6}\b|rgb\(\d")
SOURCES = [*VISUAL.rglob("*.py"), *VISUAL.rglob("*.js"), *VISUAL.rglob("*.css")]
SOURCES += [*PAGE.rglob("*.js"), *PAGE.rglob("*.css")]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_no_other_file_names_a_colour(path):
    found = COLOUR.findall(path.read_text(encoding="utf-8"))
    assert bool(found) == (path.name == "theme.py")


@pytest.mark.parametrize("path", [*VISUAL.rglob("*.js"), *PAGE.rglob("*.js")], ids=str)
def test_no_script_names_a_font(path):
    assert "system-ui" not in path.read_text(encoding="utf-8")


def test_the_browser_is_given_the_values_that_python_draws_with():
    found = json.loads(theme_js().removeprefix("export const THEME = ").rstrip(";\n"))
    assert tuple(found["palette"]) == PALETTE
    assert found["light"]["ink"] == theme.INK
    assert found["font"] == theme.FONT
    assert set(found["light"]) == set(found["dark"])


@pytest.mark.parametrize("rules", [page_css(), (PAGE / "page.css").read_text(encoding="utf-8")])
def test_every_variable_that_a_style_sheet_uses_has_a_value(rules):
    given = set(re.findall(r"--([\w-]+):", theme_css() + rules))
    assert set(re.findall(r"var\(--([\w-]+)", rules)) <= given


def test_a_scale_that_is_changed_shows_in_the_terminal(monkeypatch):
    before = look_text(payload())
    monkeypatch.setattr(theme, "WEIGHTS", ((255, 255, 255), (10, 20, 30)))
    after = look_text(payload())
    assert before.plain == after.plain
    assert before.spans != after.spans


def test_the_scale_of_weights_runs_from_dark_to_light():
    shades = [weight_rgb(step / 20) for step in range(21)]
    assert (shades[0], shades[-1]) == (WEIGHTS[0], WEIGHTS[-1])
    assert weight_rgb(-1) == WEIGHTS[0]
    assert weight_rgb(2) == WEIGHTS[-1]
    light = [0.3 * red + 0.6 * green + 0.1 * blue for red, green, blue in shades]
    assert light == sorted(light)


def test_what_lies_beyond_the_palette_is_told_apart_by_dashes():
    n = len(PALETTE) * len(theme.DASHES)
    assert len({colour_of(i) for i in range(n)}) == n
    assert colour_of(0) == (PALETTE[0], None)


def test_what_is_no_number_is_a_dash():
    assert (number(None), number(0.12345)) == ("–", "0.123")


def test_digits_that_are_changed_show_in_every_number(monkeypatch):
    monkeypatch.setitem(theme.DIGITS, "vector", 1)
    assert number(0.345) == "0.3"
    assert '"vector": 1' in theme_js()
