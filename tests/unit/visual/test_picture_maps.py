"""Looks at pictures: which maps are drawn, and through which renderer."""

import io
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from PIL import Image

from regard.visual.heat_maps import data_uri, lit, pixels_of
from regard.visual.look_files import look_figure, look_file
from regard.visual.matrix import look_text
from regard.visual.payload import Axis, Selected
from regard.visual.picture_maps import ALL, picture_maps, shows_picture

SVG = "{http://www.w3.org/2000/svg}"
PIXELS = np.random.default_rng(1).integers(60, 256, (8, 12, 3), np.uint8)


def payload(rows, columns, name="decoder.cross", target=(), **more):
    """A look of one layer with two heads."""
    shape = (1, 2, len(rows), len(columns))
    weights = np.random.default_rng(0).dirichlet(np.ones(shape[-1]), size=shape[:-1])
    return {
        "source": "",
        "answer": "a cat",
        "translation": "a cat",
        "source_tokens": list(columns),
        "target_tokens": list(target),
        "attentions": {name: weights},
        "axes": {name: {"rows": "asking", "columns": "source"}},
        "sides": {"asking": rows.as_json(), "source": columns.as_json()},
        "edits": [],
        "picture": data_uri(PIXELS),
        **more,
    }


GRID = Axis.patches(2, 3)
CLASS = Axis.patches(2, 3, before=["<cls>"])
WORDS = Axis(("a", "cat", "</s>"))


def caption(**more):
    return payload(WORDS, GRID, target=WORDS, **more)


def vision(axis=CLASS):
    return payload(axis, axis, "encoder.self")


def test_a_picture_is_shown_where_columns_are_patches_of_one():
    assert shows_picture(caption(), Selected())
    assert not shows_picture({**caption(), "picture": None}, Selected())
    assert not shows_picture(payload(WORDS, WORDS), Selected())
    assert not shows_picture({**caption(), "attentions": {}}, Selected())


def test_words_have_a_map_each_and_their_gates():
    found = picture_maps(caption(gates=[0.5, 1.0, 0.25]), Selected(head=1))
    weights = caption()["attentions"]["decoder.cross"][0][1]
    assert [one.label for one in found.maps] == ["a", "cat", "</s>"]
    assert [one.gate for one in found.maps] == [0.5, 1.0, 0.25]
    for one, row in zip(found.maps, weights, strict=True):
        np.testing.assert_allclose(one.weights, row.reshape(2, 3))
    assert np.array_equal(found.pixels, PIXELS)
    assert found.maps[0].told == "a (β 0.500)"


def test_patches_are_asked_by_their_class_token_or_all_together():
    (one,) = picture_maps(vision(), Selected()).maps
    mean = vision()["attentions"]["encoder.self"][0].mean(axis=0)
    np.testing.assert_allclose(one.weights, mean[0, 1:].reshape(2, 3))
    assert one.told == f"<cls> ({mean[0, 1:].sum():.3f} on the patches)"
    (one,) = picture_maps(vision(GRID), Selected()).maps
    mean = vision(GRID)["attentions"]["encoder.self"][0].mean(axis=0)
    np.testing.assert_allclose(one.weights, mean.mean(axis=0).reshape(2, 3))
    assert (one.label, one.row, one.told) == (ALL, None, ALL)


def test_a_row_that_is_chosen_is_shown_alone():
    (one,) = picture_maps(vision(), Selected(token=4, head=0)).maps
    row = vision()["attentions"]["encoder.self"][0][0][4]
    np.testing.assert_allclose(one.weights, row[1:].reshape(2, 3))
    assert (one.label, one.row) == ("1,0", 4)


def test_of_queries_those_are_shown_that_found_something():
    boxes = [{"label": "cat", "probability": 0.9, "box": [0, 0, 0.5, 1], "row": 1}]
    assert [one.row for one in picture_maps(caption(boxes=boxes), Selected()).maps] == [1]
    assert [one.row for one in picture_maps(caption(boxes=[]), Selected()).maps] == [None]


def test_the_patch_that_hard_attention_took_is_drawn_as_it_is():
    assert picture_maps(caption(), Selected()).smooth
    assert not picture_maps(caption(drawn=[0, 2, 5]), Selected()).smooth


def test_a_terminal_shows_the_picture_and_its_maps_or_digits_without_colours():
    text = look_text(vision(), width=80)
    assert "the picture" in text.plain
    assert "<cls> (" in text.plain
    assert text.plain.count("▀") == 2 * 32 * 11  # two pictures of 32 × 22 pixels
    assert max(map(len, text.plain.split("\n"))) == 2 * 32 + 1
    plain = look_text(caption(), width=80, coloured=False).plain
    assert "▀" not in plain
    assert plain.count("\n0 ") == 3  # a matrix of patches a word
    weights = caption()["attentions"]["decoder.cross"][0].mean(axis=0)[1].reshape(2, 3)
    digits = [min(9, int(10 * one / weights.max() + 1e-9)) or "·" for one in weights[1]]
    assert "1 " + " ".join(map(str, digits)) in plain


def test_a_drawing_has_a_picture_a_row_and_says_its_weights():
    root = ET.fromstring(look_file(caption(gates=[0.5, 1.0, 0.25]), "svg"))
    assert len(list(root.iter(f"{SVG}image"))) == 1 + 2 * 3
    texts = [one.text for one in root.iter(f"{SVG}text")]
    assert texts[1:] == ["a", "β 0.500", "cat", "β 1.000", "</s>", "β 0.250"]
    smooth = look_file(vision(), "svg")
    assert "pixelated" not in smooth
    assert "pixelated" in look_file(vision(), "svg", selected=Selected(patches=True))


@pytest.mark.parametrize("smooth", [True, False])
def test_a_png_holds_the_picture_and_the_map_beside_it(smooth):
    selected = Selected(token=0, patches=not smooth)
    found = np.asarray(Image.open(io.BytesIO(look_figure(vision(), "png", selected))))
    large = np.asarray(Image.fromarray(PIXELS).resize((640, 427), Image.Resampling.BILINEAR))
    assert np.array_equal(found[:427, :640], large)
    one = picture_maps(vision(), selected).maps[0]
    assert np.array_equal(found[:427, 668:], lit(large, one.weights, smooth=smooth))


def test_a_png_of_texts_is_their_matrix():
    found = Image.open(io.BytesIO(look_figure(payload(WORDS, WORDS), "png", Selected())))
    width, height = found.size
    assert width > 100
    assert height > 100
    assert np.asarray(found)[0, 0].tolist()[:3] == [255, 255, 255]  # on paper


def test_tables_are_those_of_the_whole_matrix_as_before():
    table = look_file(vision(), "csv")
    corner = '"encoder.self, layer 0, mean of 2 heads"'
    assert table.splitlines()[0] == corner + ',<cls>,"0,0","0,1","0,2","1,0","1,1","1,2"'
    assert len(table.splitlines()) == 1 + 7


def test_smooth_light_lies_between_that_of_its_patches():
    weights = np.array([[1.0, 0.0]])
    grey = np.full((2, 8, 3), 200, np.uint8)
    patches, smooth = lit(grey, weights)[0, :, 0], lit(grey, weights, smooth=True)[0, :, 0]
    assert set(patches[:4]) == {200}
    assert len(set(patches[4:])) == 1
    assert len(set(smooth.tolist())) > 2
    assert (np.diff(smooth.astype(int)) <= 0).all()
    assert np.array_equal(pixels_of(data_uri(PIXELS)), PIXELS)
