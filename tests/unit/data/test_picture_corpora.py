"""Files with pictures as records."""

import gzip
import json
import os
import shutil
import tarfile

import numpy as np
import pytest
from PIL import Image

from regard.core.errors import ConfigError, DataError
from regard.core.settings import parse
from regard.data.corpora import read_corpus
from regard.data.settings import DataSettings
from regard.data.splits import load_records


def picture(path, tone):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full((6, 8, 3), tone, np.uint8)).save(path)
    return path


def settings(**given):
    return parse(DataSettings, given, "data")


def tones(records):
    return [int(one.picture.pixels()[0, 0, 0]) for one in records]


@pytest.fixture
def classes(tmp_path):
    """Two classes of five and four pictures, each of another tone."""
    for i in range(9):
        picture(tmp_path / "train" / ("cat" if i < 5 else "dog") / f"{i}.png", 10 * i)
    return tmp_path


@pytest.mark.parametrize("packed", [False, True])
def test_the_folders_of_pictures_are_their_classes(classes, packed):
    path = classes / "train"
    if packed:
        path = classes / "train.tar.xz"
        with tarfile.open(path, "w:xz") as archive:
            archive.add(classes / "train", "train")
    found = read_corpus(str(path), "image_label").examples
    assert [one.label for one in found] == ["cat"] * 5 + ["dog"] * 4
    assert tones(found) == [10 * i for i in range(9)]


def test_idx_files_are_pictures_and_labels(tmp_path):
    pixels = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    for name, array in (("images", pixels), ("labels", np.array([7, 1], np.uint8))):
        sizes = np.array(array.shape, ">u4").tobytes()
        (tmp_path / name).write_bytes(bytes([0, 0, 8, array.ndim]) + sizes + array.tobytes())
    found = read_corpus((str(tmp_path / "images"), str(tmp_path / "labels")), "image_label")
    assert [one.label for one in found.examples] == ["7", "1"]
    assert (found.examples[1].picture.pixels()[..., 2] == pixels[1]).all()


def test_lines_name_pictures_beside_them_or_where_it_is_said(classes):
    (classes / "a.csv").write_text("file_name,label\ntrain/cat/0.png,tom\n6,rex\n")
    assert tones(read_corpus(str(classes / "a.csv"), "image_label").examples) == [0, 60]
    (classes / "elsewhere").mkdir()
    (classes / "elsewhere" / "b.tsv").write_text("3.png\ttom\n")
    said = settings(folder=str(classes), train="elsewhere/b.tsv", images={"train": "train"})
    found = read_corpus(str(classes / "elsewhere" / "b.tsv"), "image_label", said, "train")
    assert tones(found.examples) == [30]


@pytest.mark.parametrize("images", ["elsewhere", {"train": "elsewhere"}])
def test_pictures_that_lie_in_their_classes_are_nowhere_else(classes, images):
    said = settings(folder=str(classes), train="train", images=images)
    told = r"^data\.images=.* lines name, and .*train is pictures by itself; leave it out$"
    with pytest.raises(ConfigError, match=told):
        load_records(said, "image_label")
    (classes / "a.tsv").write_text("0.png\ttom\n7.png\trex\n")
    both = settings(folder=str(classes), train="train", valid="a.tsv", images={"valid": "train"})
    assert tones(load_records(both, "image_label").splits["valid"]) == [0, 70]
    assert len(read_corpus(str(classes / "train"), "image_label", both).examples) == 9


def test_columns_are_of_lines(classes):
    with pytest.raises(
        ConfigError, match=r"^data\.columns=.* is pictures by itself; leave it out$"
    ):
        load_records(settings(folder=str(classes), train="train", columns=[1, 2]), "image_label")


def test_a_picture_that_is_missing_is_told_with_its_line(classes):
    (classes / "a.tsv").write_text("0.png\tcat\n99.png\tcat\n")
    with pytest.raises(DataError, match=r"a\.tsv:2: no picture '99.png'"):
        read_corpus(str(classes / "a.tsv"), "image_label")


def test_a_column_divides_a_file(classes):
    rows = "".join(f"{i}.png\tcat\t{s}\n" for i, s in enumerate(["train", "val", "test", "train"]))
    (classes / "all.tsv").write_text("image\tlabel\tsplit\n" + rows)
    data = load_records(settings(train="all.tsv", folder=str(classes)), "image_label")
    assert {name: tones(some) for name, some in data.splits.items()} == {
        "train": [0, 30],
        "valid": [10],
        "test": [20],
    }
    (classes / "all.tsv").write_text("image\tlabel\tsplit\n0.png\tcat\tholdout\n")
    with pytest.raises(DataError, match="all.tsv:2: split 'holdout' is none of train"):
        load_records(settings(train="all.tsv", folder=str(classes)), "image_label")


def test_a_column_that_leaves_nothing_to_train_on_is_told(classes):
    (classes / "all.tsv").write_text("image\tlabel\tsplit\n0.png\tcat\ttest\n")
    with pytest.raises(DataError, match="no line is of the split train"):
        load_records(settings(train="all.tsv", folder=str(classes)), "image_label")


def test_what_is_held_out_goes_by_pixels_and_not_by_names_or_dates(classes):
    def held(folder):
        data = load_records(settings(train="train", folder=str(folder)), "image_label")
        return tones(data.splits["valid"])

    moved = classes / "moved"
    shutil.copytree(classes / "train", moved / "train")
    for i, path in enumerate(sorted((moved / "train").rglob("*.png"))):
        os.utime(path, (i, i))
        path.rename(path.with_stem(f"other{i}"))
    assert held(moved) == held(classes)


@pytest.mark.parametrize(
    ("kind", "said", "told"),
    [
        ("caption", {"image": 5, "caption": "a"}, "'image' must be a string, but is '5'"),
        ("caption", {"image": None, "caption": "a"}, "'image' must be a string"),
        ("caption", {"image": "0.png", "caption": 5}, "'caption' must be a string, but is '5'"),
        ("caption", {"image": "0.png", "caption": ["a", 5]}, "'caption' must be a string"),
        ("caption", {"image": "0.png", "caption": {"a": 1}}, "'caption' must be a string"),
        ("boxes", {"image": "0.png", "boxes": [[0, 0, 4, 4]], "labels": [None]}, "without a label"),
    ],
)
def test_values_of_another_kind_are_told_with_their_line(classes, kind, said, told):
    (classes / "a.jsonl").write_text(json.dumps(said))
    with pytest.raises(DataError, match=f"a.jsonl:1: .*{told}"):
        read_corpus(str(classes / "a.jsonl"), kind)


def test_a_split_of_null_is_none(classes):
    said = {"image": "0.png", "caption": "a", "split": None}
    (classes / "a.jsonl").write_text(json.dumps(said))
    (found,) = read_corpus(str(classes / "a.jsonl"), "caption").examples
    assert found.split == ""


IMAGES = [{"id": 1, "file_name": "0.png"}]


@pytest.mark.parametrize(
    ("whole", "told"),
    [
        ({"images": {"a": 1}}, "expected a list of 'images'"),
        ({"images": ["a"]}, "image number 1: no 'id' or no 'file_name'"),
        ({"images": IMAGES, "annotations": None}, "expected a list of 'annotations'"),
        ({"images": IMAGES, "categories": ["x"]}, "expected an object with 'id' and 'name'"),
        ({"bbox": [0, 0, 4], "category": "x"}, "expected a box as left, top, right, bottom"),
        ({"bbox": ["a", 0, 4, 4], "category": "x"}, "expected a box as left, top, right, bottom"),
        ({"bbox": [0, 0, 4, 4]}, "a box without a label"),
        ({"bbox": [0, 0, 4, 4], "image_id": 7}, "of image_id 7, and no image has it"),
    ],
)
def test_coco_that_is_broken_is_told(classes, whole, told):
    if "bbox" in whole:
        whole = {"images": IMAGES, "annotations": [{"image_id": 1, **whole}]}
    (classes / "a.json").write_text(json.dumps(whole))
    with pytest.raises(DataError, match=f"a.json: .*{told}"):
        read_corpus(str(classes / "a.json"), "boxes")


def test_captions_of_one_picture_are_one_record(classes):
    (classes / "a.tsv").write_text("0.png\tone\n5.png\tother\n0.png\ttwo\n1.png\t\n")
    found = read_corpus(str(classes / "a.tsv"), "caption")
    assert [one.captions for one in found.examples] == [("one", "two"), ("other",)]
    assert found.n_empty == 1


def test_captions_as_coco_has_them(classes):
    whole = {
        "images": [{"id": 4, "file_name": "0.png"}, {"id": 5, "file_name": "5.png"}],
        "annotations": [{"image_id": i, "caption": str(i)} for i in (5, 4, 5)],
    }
    path = classes / "coco.json.gz"
    path.write_bytes(gzip.compress(json.dumps(whole).encode()))
    found = read_corpus(str(path), "caption").examples
    assert [one.captions for one in found] == [("4",), ("5", "5")]
    assert tones(found) == [0, 50]


def test_questions_in_columns_and_in_json(classes):
    (classes / "a.tsv").write_text("what?\tcat\t3\n")
    (classes / "a.jsonl").write_text(
        json.dumps({"image_name": "3.png", "question": "what?", "answer": "cat", "kind": "is"})
    )
    for name in ("a.tsv", "a.jsonl"):
        (found,) = read_corpus(str(classes / name), "image_question").examples
        assert (found.question, found.answer) == ("what?", "cat")
        assert tones([found]) == [30]
    assert found.kind == "is"


def test_the_key_of_a_questions_kind_may_have_any_name(classes):
    said = {"image_name": "3.png", "question": "how many?", "answer": 2, "answer_type": "OPEN"}
    (classes / "a.jsonl").write_text(json.dumps(said))
    (classes / "a.tsv").write_text("question\timage\tanswer\tanswer_type\nwhat?\t3\tcat\tOPEN\n")
    for name, answer in (("a.jsonl", "2"), ("a.tsv", "cat")):
        asked = settings(train=name, question_kind="answer_type")
        (found,) = read_corpus(str(classes / name), "image_question", asked).examples
        assert (found.kind, found.answer) == ("OPEN", answer)
        (plain,) = read_corpus(str(classes / name), "image_question").examples
        assert plain.kind == ""


def test_all_that_is_said_of_a_picture_stays_in_one_split(classes):
    rows = [f"question {i}\tyes\t{i % 9}\n" for i in range(90)]
    (classes / "a.tsv").write_text("".join(rows))
    data = load_records(settings(train="a.tsv", folder=str(classes)), "image_question")
    train, valid = ({one.source for one in data.splits[name]} for name in ("train", "valid"))
    assert train
    assert valid
    assert not train & valid


def test_the_scenes_are_records_of_every_kind():
    for kind in ("image_label", "caption", "image_question", "boxes"):
        data = load_records(settings(world="scenes", n_train=3, language="fr"), kind)
        assert [*data.splits] == ["train", "valid", "test", "combinations"]
        assert data.test_sets == ["test", "combinations"]
        first = data.splits["train"][0]
        assert first.picture.pixels().shape == (64, 64, 3)
    assert len(first.boxes) == len(first.labels) == len(first.picture.scene.objects)


def test_a_class_without_pictures_is_told(classes):
    (classes / "train" / "cow").mkdir()
    with pytest.raises(DataError, match="cow: a class without pictures"):
        read_corpus(str(classes / "train"), "image_label")
