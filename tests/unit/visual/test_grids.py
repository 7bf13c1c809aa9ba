import xml.etree.ElementTree as ET

import numpy as np

from regard.visual.grids import grids, sheets, signed_pixels
from regard.visual.theme import PALETTE

SVG = "{http://www.w3.org/2000/svg}"


def texts(svg):
    return [node.text for node in ET.fromstring(svg).iter(f"{SVG}text")]


def test_the_colour_tells_the_sign_and_its_strength_the_size():
    pixels = signed_pixels(np.array([[2.0, -1.0], [0.0, 2.0]]))
    above, below = (tuple(bytes.fromhex(colour[1:])) for colour in PALETTE[:2])
    assert tuple(pixels[0, 0]) == (*above, 255)
    assert tuple(pixels[0, 1]) == (*below, 128)
    assert pixels[1, 0, 3] == 0


def test_nothing_but_zeros_is_paper():
    assert signed_pixels(np.zeros((2, 3)))[..., 3].max() == 0


def test_each_table_has_its_name_its_largest_number_and_axes():
    svg = grids(
        {"a < b": np.full((30, 20), -2.0), "c": np.ones((5, 5))},
        title="Two",
        x_label="dimension",
        y_label="position",
    )
    told = texts(svg)
    assert {"a < b, up to ±2", "c, up to 1", "dimension", "position", "0", "20"} <= set(told)
    assert len(list(ET.fromstring(svg).iter(f"{SVG}image"))) == 2


def test_a_sheet_has_its_numbers_written_in():
    svg = sheets({"X": [[1.0, -0.25]]}, {"X": ("p", "q")}, ["row"], title="Numbers")
    assert texts(svg) == ["Numbers", "row", "X", "p", "q", "1", "-0.25"]
    first, second = ET.fromstring(svg).iter(f"{SVG}rect")
    assert (first.get("fill"), second.get("fill")) == PALETTE[:2]
    assert float(first.get("fill-opacity")) > float(second.get("fill-opacity"))
