"""How far heads look and how alike positions are, drawn."""

import xml.etree.ElementTree as ET

import numpy as np

from regard.visual.heat_maps import pixels_of
from regard.visual.patch_figures import attention_distances, position_tiles
from regard.visual.theme import WEIGHTS

SVG = "{http://www.w3.org/2000/svg}"


def test_a_head_is_a_point_higher_where_it_looks_farther():
    root = ET.fromstring(attention_distances([(0, 4.0), (0, 12.0), (2, 20.0)], name="encoder.self"))
    points = [(float(one.get("cx")), float(one.get("cy"))) for one in root.iter(f"{SVG}circle")]
    titles = [one[0].text for one in root.iter(f"{SVG}circle")]
    assert titles == ["layer 0: 4.000 pixels", "layer 0: 12.000 pixels", "layer 2: 20.000 pixels"]
    (x1, y1), (x2, y2), (x3, y3) = points
    assert x1 == x2 < x3
    assert y1 > y2 > y3
    np.testing.assert_allclose(y1 - y2, y2 - y3, atol=0.02)
    (line,) = root.iter(f"{SVG}polyline")
    means = [tuple(map(float, one.split(","))) for one in line.get("points").split()]
    np.testing.assert_allclose(means, [(x1, (y1 + y2) / 2), (x3, y3)], atol=0.06)
    names = [one.text for one in root.iter(f"{SVG}text")]
    assert names[1:] == ["0", "5", "10", "15", "20", "0", "2", "layer", "pixels"]


def test_heads_that_look_nowhere_far_are_drawn_too():
    root = ET.fromstring(attention_distances([(0, 0.0)], name="encoder.self"))
    assert len(list(root.iter(f"{SVG}circle"))) == 1


def test_every_patch_has_a_tile_with_all_others():
    cosines = np.full((2, 3, 2, 3), -1.0)
    for r in range(2):
        for c in range(3):
            cosines[r, c, r, c] = 1.0
    root = ET.fromstring(position_tiles(cosines))
    (image,) = root.iter(f"{SVG}image")
    pixels = pixels_of(image.get("href"))
    assert pixels.shape == (2 * 3, 3 * 4, 3)
    for r in range(2):
        for c in range(3):
            tile = pixels[3 * r : 3 * r + 2, 4 * c : 4 * c + 3]
            bright = (tile == WEIGHTS[-1]).all(axis=-1)
            assert np.argwhere(bright).tolist() == [[r, c]]
            assert (tile[~bright] == WEIGHTS[0]).all()
