import base64
import zlib
from xml.etree import ElementTree

import numpy as np
import pytest
from looks import payload

import regard
from regard.visual.multiples import multiples

SVG = "{http://www.w3.org/2000/svg}"


def pixels(href, n_rows, n_columns):
    raw = base64.b64decode(href.removeprefix("data:image/png;base64,"))
    start = raw.index(b"IDAT") + 4
    size = int.from_bytes(raw[start - 8 : start - 4], "big")
    rows = np.frombuffer(zlib.decompress(raw[start : start + size]), np.uint8)
    rows = rows.reshape(n_rows, 1 + 4 * n_columns)
    assert (rows[:, 0] == 0).all()
    return rows[:, 1:].reshape(n_rows, n_columns, 4)


def test_there_is_a_picture_for_each_head_of_each_layer_a_pixel_a_weight():
    look = payload(n_layers=2, n_heads=3)
    root = ElementTree.fromstring(multiples(look, "decoder.cross"))
    groups = root.findall(f"{SVG}g")
    titles = [group.find(f"{SVG}title").text for group in groups]
    assert titles == [f"decoder.cross, layer {y}, head {h}" for y in range(2) for h in range(3)]
    for i, group in enumerate(groups):
        weights = np.array(look["attentions"]["decoder.cross"][i // 3][i % 3])
        shown = pixels(group.find(f"{SVG}image").get("href"), *weights.shape)
        np.testing.assert_allclose(shown[..., 3] / 255, np.sqrt(weights), atol=0.5 / 255 + 1e-6)
        assert (shown[..., :3] == (0, 114, 178)).all()


def test_layers_go_down_and_heads_across_without_overlap():
    root = ElementTree.fromstring(multiples(payload(), "encoder.self"))
    images = [group.find(f"{SVG}image") for group in root.findall(f"{SVG}g")]
    places = [(float(one.get("x")), float(one.get("y"))) for one in images]
    assert len(set(places)) == 6
    assert places[0][1] == places[2][1] < places[3][1]
    assert places[1][0] - places[0][0] >= float(images[0].get("width"))


def test_an_unknown_attention_is_refused():
    with pytest.raises(regard.ConfigError, match="known: encoder.self"):
        multiples(payload(), "encoder.cross")
