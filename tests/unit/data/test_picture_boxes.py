"""Boxes of files: how they are read, what is refused, and where they lie in a square picture."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from regard.core.errors import DataError
from regard.data.corpora import read_corpus
from regard.data.picture_boxes import fitted_boxes, original_boxes, seen_boxes
from regard.data.pictures import fitted

HEADER = "image,width,height,label,xmin,ymin,xmax,ymax"


@pytest.fixture
def folder(tmp_path):
    """Two pictures of 40 × 20 pixels."""
    for name in ("a.png", "b.png"):
        Image.new("RGB", (40, 20)).save(tmp_path / name)
    return tmp_path


def read(folder, name, text):
    (folder / name).write_text(text)
    return read_corpus(str(folder / name), "boxes").examples


def test_lines_of_a_table_are_boxes_and_those_of_a_picture_come_together(folder):
    lines = [
        "a.png,40,20,cell,10,5,30,20",
        "b.png,40,20,star,0,0,40,20",
        "a.png,40,20,star,0,0,4,2",
    ]
    first, second = read(folder, "boxes.csv", "\n".join([HEADER, *lines]) + "\n")
    assert (first.labels, second.labels) == (("cell", "star"), ("star",))
    expected = [[0.25, 0.25, 0.75, 1.0], [0, 0, 0.1, 0.1]]
    np.testing.assert_allclose(first.boxes, expected, atol=1e-6)
    np.testing.assert_allclose(second.boxes, [[0, 0, 1, 1]])
    assert (first.aspect, first.picture.where) == (2.0, first.picture.where)


def test_without_a_size_the_picture_is_asked(folder):
    (one,) = read(folder, "boxes.tsv", "a.png\tcell\t10\t5\t30\t20\n")
    np.testing.assert_allclose(one.boxes, [[0.25, 0.25, 0.75, 1.0]])
    assert one.aspect == 2.0


def test_a_line_of_json_is_a_picture(folder):
    lines = [
        {"image": "a.png", "boxes": [[10, 5, 30, 20], [0, 0, 4, 2]], "labels": ["cell", "star"]},
        {"image": "b.png", "boxes": [], "labels": []},
    ]
    first, empty = read(folder, "boxes.jsonl", "\n".join(map(json.dumps, lines)))
    assert first.labels == ("cell", "star")
    assert first.boxes.shape == (2, 4)
    assert (empty.labels, empty.boxes.shape) == ((), (0, 4))


def test_cocos_boxes_are_a_corner_and_a_size(folder):
    coco = {
        "images": [
            {"id": 7, "file_name": "a.png", "width": 40, "height": 20},
            {"id": 8, "file_name": "b.png", "width": 40, "height": 20},
        ],
        "annotations": [
            {"image_id": 7, "bbox": [10, 5, 20, 15], "category_id": 3},
            {"image_id": 7, "bbox": [0, 0, 4, 2], "category_id": 1},
        ],
        "categories": [{"id": 3, "name": "cell"}, {"id": 1, "name": "star"}],
    }
    first, empty = read(folder, "boxes.json", json.dumps(coco))
    assert first.labels == ("cell", "star")
    expected = [[0.25, 0.25, 0.75, 1.0], [0, 0, 0.1, 0.1]]
    np.testing.assert_allclose(first.boxes, expected, atol=1e-6)
    assert empty.labels == ()


def test_what_coco_does_not_know_is_told_with_its_image(folder):
    coco = {
        "images": [{"id": 7, "file_name": "a.png"}],
        "annotations": [{"image_id": 7, "bbox": [10, 5, 20, 15], "category_id": 9}],
        "categories": [{"id": 3, "name": "cell"}],
    }
    with pytest.raises(DataError, match=r"boxes\.json: image a\.png: a box with category_id 9, "):
        read(folder, "boxes.json", json.dumps(coco))


@pytest.mark.parametrize("size", [(80, 40), (20, 40), (40.5, 20), ("x", 20), (0, 0)])
def test_a_size_that_the_picture_has_not_is_told(folder, size):
    width, height = size
    image = {"id": 7, "file_name": "a.png", "width": width, "height": height}
    told = rf"{width} × {height} pixels is said to be there, but it has 40 × 20"
    with pytest.raises(DataError, match=rf"boxes\.json: image a\.png: a picture of {told}"):
        read(folder, "boxes.json", json.dumps({"images": [image]}))
    with pytest.raises(DataError, match=rf"boxes\.csv:2: a picture of {told}"):
        read(folder, "boxes.csv", f"{HEADER}\na.png,{width},{height},star,0,0,4,2\n")


def test_a_picture_that_is_turned_has_the_size_that_is_seen(folder):
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (40, 20)).save(folder / "a.jpg", exif=exif)
    (one,) = read(folder, "boxes.csv", f"{HEADER}\na.jpg,20,40,cell,5,10,15,40\n")
    np.testing.assert_allclose(one.boxes, [[0.25, 0.25, 0.75, 1.0]])
    assert one.aspect == 0.5


def test_a_pixel_over_the_edge_is_cut_off_and_nothing_is_something(folder):
    lines = "a.png,40,20,cell,-0.5,5,40.8,21\nb.png,40,20,,,,,\n"
    first, empty = read(folder, "boxes.csv", f"{HEADER}\n{lines}")
    np.testing.assert_allclose(first.boxes, [[0, 0.25, 1, 1]])
    assert empty.labels == ()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("cell,10,5,42,20", r"boxes\.csv:3: the box 10, 5, 42, 20 lies outside the picture of 40"),
        ("cell,-9,5,30,20", "lies outside"),
        ("cell,10,5,30,200", "lies outside"),
        ("cell,-1,5,0,20", "lies outside"),
        ("cell,30,5,10,20", r"boxes\.csv:3: the box 30, 5, 10, 20 is empty"),
        ("cell,10,5,10,20", "is empty: expected left < right"),
        ("cell,10,5,x,20", r"boxes\.csv:3: expected a box as left, top, right, bottom"),
        ("cell,10,5,nan,20", "expected a box"),
        (",10,5,30,20", r"boxes\.csv:3: a box without a label"),
    ],
)
def test_boxes_that_cannot_be_are_refused_with_their_line(folder, line, message):
    text = f"{HEADER}\nb.png,40,20,star,0,0,40,20\na.png,40,20,{line}\n"
    with pytest.raises(DataError, match=message):
        read(folder, "boxes.csv", text)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"boxes": [[1, 2, 3]], "labels": ["a"]}, r"jsonl:1: expected a box as left"),
        ({"boxes": [[1, 2, 3, True]], "labels": ["a"]}, "expected a box as left"),
        ({"boxes": ["1234"], "labels": ["a"]}, "expected a box as left"),
        ({"boxes": [[1, 2, 3, 4]], "labels": []}, "1 boxes, but 0 labels"),
        ({"boxes": {"a": 1}, "labels": []}, "expected lists of 'boxes'"),
        ({"boxes": [[1, 2, 3, 4]]}, "expected lists of 'boxes' and of their 'labels'"),
        ({"label": "a", "xmin": 1}, "no 'ymin'; expected image, label, xmin"),
        ({"boxes": [], "labels": [], "width": 0, "height": 20}, "a picture of 0 × 20 pixels"),
    ],
)
def test_what_is_no_box_in_json_is_refused(folder, entry, message):
    with pytest.raises(DataError, match=message):
        read(folder, "boxes.jsonl", json.dumps({"image": "a.png", **entry}))


def test_a_picture_that_is_not_there(folder):
    with pytest.raises(DataError, match=r"boxes\.csv:2: no picture 'c\.png'"):
        read(folder, "boxes.csv", f"{HEADER}\nc.png,40,20,star,0,0,40,20\n")


# ------------------------------------------------------------------ pictures that are made square


@pytest.mark.parametrize("size", [(60, 40), (40, 60), (40, 40)])
@pytest.mark.parametrize("fit", ["crop", "squash", "pad"])
def test_a_box_lies_around_its_pixels_once_the_picture_is_square(size, fit):
    width, height = size
    pixels = np.zeros((height, width, 3), np.uint8)
    pixels[16:24, 16:28] = 255
    box = np.array([[16 / width, 16 / height, 28 / width, 24 / height]], np.float32)
    seen = fitted(pixels, 120, fit)[..., 0] > 140
    rows, columns = np.flatnonzero(seen.any(axis=1)), np.flatnonzero(seen.any(axis=0))
    expected = np.array([[columns[0], rows[0], columns[-1] + 1, rows[-1] + 1]]) / 120
    np.testing.assert_allclose(fitted_boxes(box, width / height, fit), expected, atol=0.012)


@given(
    st.floats(0.2, 5),
    st.sampled_from(["crop", "squash", "pad"]),
    st.tuples(*[st.floats(0, 0.5)] * 2),
    st.tuples(*[st.floats(0.5, 1)] * 2),
)
def test_there_and_back(aspect, fit, low, high):
    box = np.array([[*low, *high]], np.float32)
    there = fitted_boxes(box, aspect, fit)
    np.testing.assert_allclose(original_boxes(there, aspect, fit), box, atol=1e-5)


def test_boxes_that_are_hardly_seen_are_left_out():
    boxes = np.array([[0, 0, 1, 1], [-0.2, 0, 0.2, 1], [-0.8, 0, 0.2, 1], [1.1, 0, 1.3, 1]])
    inside, seen = seen_boxes(boxes)
    assert seen.tolist() == [True, True, False, False]
    np.testing.assert_allclose(inside[1], [0, 0, 0.2, 1])


def test_boxes_of_pictures_in_proportion_are_where_they_were():
    box = np.array([[0.1, 0.2, 0.6, 0.9]], np.float32)
    assert np.array_equal(fitted_boxes(box, 1.7, "keep"), box)
    assert np.array_equal(original_boxes(box, 1.7, "keep"), box)
