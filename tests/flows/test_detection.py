"""Detection from files to boxes: training, resuming, evaluating, commands, server, looking."""

import base64
import json
import shutil

import numpy as np
import pytest
from detectors import recipe, write_shapes
from fastapi.testclient import TestClient
from PIL import Image

import regard
from regard.cli.main import main
from regard.core.errors import CheckpointError
from regard.runs.heads import head_measures
from regard.runs.train import train
from regard.server.app import make_app
from regard.tasks.base import TASKS


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_shapes(tmp_path_factory.mktemp("shapes"))


@pytest.fixture(scope="module")
def path(data, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "shapes"
    train(recipe(data), out, device="cpu")
    return out


@pytest.fixture(scope="module")
def run(path):
    return regard.load(path, device="cpu")


def test_it_learns(run):
    found = TASKS["detection"].evaluate(run).scores
    assert found["task"] == "detection"
    assert (found["split"], found["n"]) == ("test", 8)
    assert found["ap50"] > 0.9
    assert found["ap"] > 0.4
    assert found["ap50_signature"] == "COCO, .50"
    assert 0 < found["loss"] < 5


def test_boxes_are_in_pixels_of_the_picture_as_it_was_given(run, data):
    (line,) = [x for x in (data / "boxes.tsv").read_text().splitlines() if x.startswith("56.png")]
    kind, *corners = line.split("\t")[3:8]
    best, *_ = run.detect(data / "56.png")
    assert best.label == kind
    assert np.abs(np.array(best.box) - np.array(corners, float)).max() < 6
    assert run.detect([data / "56.png"], threshold=1.0) == [[]]
    everything = run.detect(np.asarray(Image.open(data / "56.png")), threshold=0.0)
    assert len(everything) == 8
    assert [one.score for one in everything] == sorted((x.score for x in everything), reverse=True)


def test_a_file_of_the_users_is_scored(run, data):
    found = TASKS["detection"].score_file(run, data / "boxes.tsv").scores
    assert found["n"] == 64
    assert found["ap50"] > 0.9


def test_the_command_prints_json_and_draws(path, data, capsys, tmp_path):
    assert main(["detect", str(path), str(data / "56.png"), str(data / "57.png")]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["image"] for line in lines] == [str(data / "56.png"), str(data / "57.png")]
    assert (lines[0]["width"], lines[0]["height"]) == (96, 64)
    assert {*lines[0]["objects"][0]} == {"label", "score", "box"}
    out = tmp_path / "drawn"
    asked = ["detect", str(path), str(data / "56.png"), str(data / "57.png"), "--out", str(out)]
    assert main(asked) == 0
    assert {one.name for one in out.iterdir()} == {"56.png", "57.png"}
    with Image.open(out / "56.png") as found:
        assert found.size == (384, 256)
    capsys.readouterr()
    other = tmp_path / "56.jpg"
    with Image.open(data / "56.png") as picture:
        picture.convert("RGB").save(other)
    assert main(["detect", str(path), str(data / "56.png"), str(other), "--out", str(out)]) == 2
    assert "two pictures would be 56.png" in capsys.readouterr().err
    assert main(["detect", str(path), str(data / "56.png"), "--out", str(tmp_path / "a.svg")]) == 0
    assert (tmp_path / "a.svg").read_text().startswith("<svg")
    assert main(["evaluate", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["ap50"] > 0.9


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["57.png", "--out", "a.png"], "is one file, and there are several pictures"),
        (["--out", "a.txt"], "pictures are written as .png"),
        (["--threshold", "1.5"], "threshold"),
        (["boxes.tsv"], "boxes.tsv: not a picture"),
        (["none.png"], "no picture none.png"),
    ],
)
def test_bad_commands_are_told_in_one_line(path, data, capsys, monkeypatch, more, message):
    monkeypatch.chdir(data)
    assert main(["detect", str(path), "56.png", *more]) == 2
    told = capsys.readouterr().err
    assert message in told
    assert told.count("\n") == 1
    assert not (data / "a.png").exists()


def test_the_server_detects_and_takes_no_files(run, data):
    client = TestClient(make_app(run), base_url="http://127.0.0.1:8000")
    uri = "data:image/png;base64," + base64.b64encode((data / "57.png").read_bytes()).decode()
    found = client.post("/api/detect", json={"image": uri, "threshold": 0.4})
    assert found.status_code == 200, found.text
    told = found.json()
    assert (told["width"], told["height"]) == (96, 64)
    expected = run.detect(data / "57.png", threshold=0.4)
    assert [one["label"] for one in told["objects"]] == [one.label for one in expected]
    assert told["objects"][0]["box"] == list(expected[0].box)
    assert client.post("/api/detect", json={"image": str(data / "57.png")}).status_code == 422
    info = client.get("/api/info").json()
    assert info["form"]["view"] == "boxes"


def test_a_look_shows_where_the_query_of_every_object_looked(run, data):
    look = run.explain(data / "57.png")
    objects = look.outcome.places
    assert look.answer
    assert len(objects) == len(run.detect(data / "57.png"))
    row = objects[0].rows[0]
    assert look.target_tokens[row].startswith(objects[0].choices[0].text)
    across = look.weights("decoder.cross", layer=1)
    assert across.shape == (4, 8, 36)
    np.testing.assert_allclose(across.sum(axis=-1), 1, atol=1e-5)
    best = run.detect(data / "57.png")[0]
    left, top, right, bottom = np.array(best.box) / [96, 64, 96, 64]
    peak = int(across[:, row].mean(axis=0).argmax())
    x, y = (peak % 6 + 0.5) / 6, (peak // 6 + 0.5) / 6
    assert left - 0.15 < x < right + 0.15
    assert top - 0.15 < y < bottom + 0.15
    payload = look.as_json()
    told = payload["boxes"][0]
    assert (told["label"], told["row"]) == (best.label, row)
    np.testing.assert_allclose(told["box"], [left, top, right, bottom], atol=0.002)
    assert payload["sides"]["source"]["grid"] == [6, 6]
    assert payload["picture"].startswith("data:image/png;base64,")
    steps = look.steps(row, name="decoder.cross", layer=1, head=2)
    np.testing.assert_allclose(steps.weights, across[2, row], atol=1e-6)


def test_a_look_is_drawn_with_a_map_for_every_object(path, run, data, tmp_path, capsys):
    look = run.explain(data / "57.png")
    drawn = look.as_file("svg")
    n = len(look.boxes)
    assert drawn.count("<image ") == 1 + 2 * n  # the picture, and again under each map
    assert all(one["label"] in drawn for one in look.boxes)
    look.save(tmp_path / "look.html")
    assert main(["explain", str(path), str(data / "57.png"), "--out", str(tmp_path / "a.png")]) == 0
    assert main(["explain", str(path), str(data / "57.png")]) == 0
    assert look.boxes[0]["label"] in capsys.readouterr().out


def test_a_look_that_finds_nothing_says_so(run, data):
    look = run.explain(data / "57.png", threshold=1.0)
    assert look.as_json()["boxes"] == []
    assert (look.answer, look.outcome.text) == ("", "0 objects")
    assert look.as_file("svg").startswith("<svg")


def test_an_edit_changes_what_is_found(run, data):
    plain = run.explain(data / "57.png").outcome
    cut = [{"kind": "ablate", "name": "decoder.cross", "layer": 1, "head": i} for i in range(4)]
    assert run.explain(data / "57.png", edit=cut).outcome != plain


def test_a_resumed_training_is_the_one_that_was_never_stopped(data, tmp_path):
    """Pictures are changed by chance, and boxes with them; cut in the middle of an epoch."""
    short = {"max_steps": 10, "save_every": 4, "eval_every": 5, "log_every": 1}
    asked = recipe(data, data={"augment": {"flip": True, "zoom": 0.7, "colour": 0.3}}, train=short)

    class Cut(Exception):  # noqa: N818
        pass

    def cut(line):
        if line["step"] == 7 and line["kind"] == "train":
            raise Cut

    train(asked, tmp_path / "whole", device="cpu")
    with pytest.raises(Cut):
        train(asked, tmp_path / "cut", device="cpu", observers=[cut])
    train(asked, tmp_path / "cut", device="cpu", resume=True)
    a, b = (tmp_path / name / "model.safetensors" for name in ("whole", "cut"))
    assert a.read_bytes() == b.read_bytes()


def test_a_run_of_another_number_of_labels_is_refused(path, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(path, copy)
    (copy / "labels.json").write_text('{"labels": ["disc"], "pairs": false}')
    with pytest.raises(CheckpointError, match="belong to different runs"):
        regard.load(copy, device="cpu")


def test_heads_are_measured(run):
    found = head_measures(run, split="test", n=4)
    names = [(row["name"], row["layer"], row["head"]) for row in found.rows]
    kinds = ("encoder.self", "decoder.self", "decoder.cross")
    assert {*names} == {(name, i, j) for name in kinds for i in range(2) for j in range(4)}
    assert found.scores["ap50"] > 0.9
    across = [row for row in found.rows if row["name"] == "decoder.cross"]
    assert all(0 < row["pixel_distance"] < 68 for row in found.rows if row["name"] == kinds[0])
    assert max(row["loss_change"] for row in across) > 0.01
    assert max(row["pointing"] for row in across) > 0.9
    assert all(row["pointing"] is None for row in found.rows if row["name"] != "decoder.cross")
    assert all(0 <= row["entropy"] <= np.log2(36) for row in across)
