"""Building SVG, and pictures below each other."""

from xml.etree import ElementTree

import pytest

from regard.visual.charts import bars
from regard.visual.svg import Markup, alone, element, escaped, picture, stack


def test_text_is_escaped_and_markup_is_not():
    inner = element("b", "a & b")
    assert element("p", "<script>", inner) == "<p>&lt;script&gt;<b>a &amp; b</b></p>"


def test_attributes_cannot_be_broken_out_of():
    made = element("g", aria_label='"><script>', class_="it's")
    assert ElementTree.fromstring(made).attrib == {"aria-label": '"><script>', "class": "it's"}
    assert "<script>" not in made


def test_an_attribute_that_is_none_is_left_out():
    assert element("g", x=0, y=None) == '<g x="0"></g>'


def test_numbers_are_rounded_to_hundredths_and_never_in_powers_of_ten():
    assert element("g", a=1 / 3, b=2.0, c=1234567.891, d=0.0001) == (
        '<g a="0.33" b="2" c="1234567.89" d="0"></g>'
    )


@pytest.mark.parametrize("character", ["\x00", "\x1b", "\ud800", "\ufffe"])
def test_characters_that_xml_forbids_are_replaced(character):
    assert ElementTree.fromstring(element("p", f"a{character}b")).text == "a\ufffdb"


@pytest.mark.parametrize("text", ["\t\n", "étudiant", "漢字", "🙂"])
def test_other_characters_survive(text):
    assert ElementTree.fromstring(element("p", text)).text == text


def test_escaping_twice_changes_nothing():
    once = escaped("a < b")
    assert isinstance(once, Markup)
    assert escaped(once) == once == "a &lt; b"


def test_pictures_stand_below_each_other_each_in_its_own_size():
    parts = [bars({"a": 1.0}, title="one"), bars({"a": 1.0, "b": 2.0}, title="two")]
    whole = ElementTree.fromstring(stack(parts, label="both"))
    inner = [one for one in whole.iter() if one.tag.endswith("svg") and one is not whole]
    places = [(float(one.get("y")), float(one.get("height"))) for one in inner]
    assert places[0][0] == 0
    assert places[1][0] >= places[0][1]
    assert float(whole.get("viewBox").split()[3]) == sum(places[1])


def test_no_picture_makes_an_empty_one():
    assert ElementTree.fromstring(stack([], label="none")).get("viewBox") == "0 0 1 1"


def test_a_picture_in_a_file_has_a_title_and_is_dark_only_where_that_is_asked_for():
    shown = alone(picture(element("text", "x"), label="a < b", size=(4, 5)))
    root = ElementTree.fromstring(shown)
    assert [one.tag.partition("}")[2] for one in root] == ["title", "style", "text"]
    assert root[0].text == "a < b"
    light, dark = root[1].text.split("@media (prefers-color-scheme: dark)")
    assert "#ffffff" in light
    assert "#ffffff" not in dark


def test_a_picture_for_slides_is_light_for_every_reader():
    shown = alone(picture(element("text", "x"), label="a", size=(4, 5)), fixed=True)
    assert "background: #ffffff" in shown
    assert "@media" not in shown


def test_a_title_that_is_there_stays_the_only_one():
    shown = alone(picture(element("title", "mine"), label="other", size=(4, 5)))
    assert [one.text for one in ElementTree.fromstring(shown) if one.tag.endswith("title")] == [
        "mine"
    ]
