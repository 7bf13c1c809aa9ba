"""Boxes over a picture: where they are drawn, and what a label may not do."""

from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from regard.core.errors import ConfigError
from regard.visual.boxes import LabelledBox, boxes_svg, with_boxes, write_boxes
from regard.visual.theme import PALETTE

GREY = np.full((40, 80, 3), 128, np.uint8)
BOX = LabelledBox((0.25, 0.5, 0.75, 1.0), "star", 0.875)


def rgb(colour):
    return [int(colour[i : i + 2], 16) for i in (1, 3, 5)]


def test_a_small_picture_is_enlarged_and_its_box_outlined():
    found = with_boxes(GREY, [BOX])
    assert found.shape == (160, 320, 3)
    assert found[120, 80].tolist() == rgb(PALETTE[0])  # on the left edge
    assert found[120, 160].tolist() == [128, 128, 128]  # in the middle
    assert (with_boxes(GREY, []) == 128).all()


def test_labels_have_colours_of_their_own():
    other = LabelledBox((0.0, 0.0, 0.1, 0.2), "circle")
    found = with_boxes(GREY, [BOX, other])
    assert found[20, 0].tolist() == rgb(PALETTE[0])
    assert found[120, 80].tolist() == rgb(PALETTE[1])


def test_an_svg_has_the_picture_and_a_rectangle_a_box():
    tree = ElementTree.fromstring(boxes_svg(GREY, [BOX], title="two"))
    space = "{http://www.w3.org/2000/svg}"
    (rect,) = tree.iter(f"{space}rect")
    assert [rect.get(name) for name in ("x", "y", "width", "height")] == ["80", "80", "160", "80"]
    assert [one.text for one in tree.iter(f"{space}title")] == ["star 0.88"]
    (image,) = tree.iter(f"{space}image")
    assert image.get("href").startswith("data:image/png;base64,")


def test_a_label_cannot_become_markup():
    evil = LabelledBox((0, 0, 1, 1), "<script>alert(1)</script>")
    assert "<script" not in boxes_svg(GREY, [evil], title="<b>")


@pytest.mark.parametrize(
    ("name", "kind"), [("a.png", "PNG"), ("a.JPG", "JPEG"), ("a.webp", "WEBP")]
)
def test_files_are_what_their_names_say(tmp_path, name, kind):
    write_boxes(tmp_path / name, GREY, [BOX])
    with Image.open(tmp_path / name) as found:
        assert (found.format, found.size) == (kind, (320, 160))


def test_svg_files_and_other_endings(tmp_path):
    write_boxes(tmp_path / "a.svg", GREY, [BOX])
    assert (tmp_path / "a.svg").read_text().startswith("<svg")
    with pytest.raises(ConfigError, match=r"a\.txt: pictures are written as \.png"):
        write_boxes(tmp_path / "a.txt", GREY, [BOX])
