"""Weights over a picture: the brightest is where the model looked."""

import base64
import io
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

from regard.visual.heat_maps import data_uri, half_blocks, heat_map, lit, shade, strip, strip_text

SVG = "{http://www.w3.org/2000/svg}"


def pixels(height=8, width=8):
    rng = np.random.default_rng(0)
    return rng.integers(60, 256, (height, width, 3), np.uint8)


def test_a_picture_comes_back_from_its_address():
    head, data = data_uri(pixels()).split(",")
    assert head == "data:image/png;base64"
    found = np.asarray(Image.open(io.BytesIO(base64.b64decode(data))))
    assert np.array_equal(found, pixels())


def test_the_largest_weight_shows_the_picture_and_none_darkens_it():
    weights = np.array([[0.5, 0.25], [0.0, 0.25]])
    found = lit(pixels(), weights).astype(float)
    assert np.array_equal(found[:4, :4], pixels()[:4, :4])
    assert (found[4:, :4] < 0.25 * pixels()[4:, :4] + 1).all()
    assert (found[:4, 4:] < pixels()[:4, 4:]).all()
    assert (found[:4, 4:] > 0.5 * pixels()[:4, 4:]).all()
    assert shade(np.zeros((2, 2)))[..., 3].min() == shade(np.zeros((2, 2)))[..., 3].max() == 199


@pytest.mark.parametrize("smooth", [True, False])
def test_every_patch_tells_its_weight(smooth):
    weights = np.array([[0.5, 0.25], [0.0, 0.25]])
    found = ET.fromstring(heat_map(data_uri(pixels()), weights, size=(40, 40), smooth=smooth))
    titles = [one.text for one in found.iter("title")]
    assert titles[0] == "row 0, column 0: 0.500"
    assert len(titles) == 4
    rendering = found.findall("image")[1].get("style")
    assert rendering == f"image-rendering: {'auto' if smooth else 'pixelated'}"


def test_a_strip_has_a_picture_a_word_after_the_first():
    words, maps = ["a", "<red>", "star"], [np.eye(2)] * 3
    root = ET.fromstring(strip(pixels(), words, maps, gates=[0.5, 0.25, 1.0], title="looks"))
    texts = [one.text for one in root.iter(f"{SVG}text")]
    assert texts == ["looks", "a", "β 0.500", "<red>", "β 0.250", "star", "β 1.000"]
    assert len(list(root.iter(f"{SVG}image"))) == 1 + 2 * 3
    without = strip(pixels(), words, maps, title="looks")
    assert "β" not in without


def test_rows_are_filled_as_one_reads():
    root = ET.fromstring(strip(pixels(), list("abcdefg"), [np.eye(2)] * 7, title="t", columns=3))
    places = [one.get("transform") for one in root.iter(f"{SVG}g") if one.get("transform")]
    assert len(places) == 8
    assert places[0].split()[1] == places[2].split()[1] != places[3].split()[1]


def test_half_blocks_show_two_pixels_a_letter():
    two = np.zeros((2, 1, 3), np.uint8)
    two[0, 0], two[1, 0] = (255, 0, 0), (0, 0, 255)
    text = half_blocks(two, width=1)
    assert text.plain == "▀\n"
    assert "rgb(255,0,0) on rgb(0,0,255)" in str(text.spans[0].style)
    assert half_blocks(pixels(8, 16), width=16).plain.count("\n") == 4


def test_a_strip_fits_its_terminal():
    text = strip_text(pixels(), ["a", "b", "c"], [np.eye(2)] * 3, width=40, side=12)
    console = Console(width=40, file=io.StringIO())
    console.print(text)
    lines = text.plain.split("\n")
    assert max(map(len, lines)) == 12 * 3 + 2
    narrow = strip_text(pixels(), ["a", "\x1b[2J", "c"], [np.eye(2)] * 3, width=12, side=12)
    assert max(map(len, narrow.plain.split("\n"))) == 12
    assert "\x1b" not in narrow.plain
