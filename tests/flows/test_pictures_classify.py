"""Pictures of classes, from files to labels: trained, resumed, scored, asked and looked into."""

import base64
import io
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import yaml
from fastapi.testclient import TestClient
from PIL import Image

import regard
from regard.cli.main import main
from regard.core.errors import ConfigError, DataError
from regard.recipes.recipe import load_recipe
from regard.runs.heads import head_measures
from regard.runs.train import train
from regard.server.app import make_app
from regard.tasks.base import TASKS

SIDE = 8


def bright(where, rng):
    """A picture whose left or right half is brighter."""
    pixels = rng.integers(0, 120, (SIDE, SIDE, 3)).astype(np.uint8)
    half = slice(0, SIDE // 2) if where == "left" else slice(SIDE // 2, SIDE)
    pixels[:, half] += 100
    return pixels


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("pictures"), np.random.default_rng(0)
    for split, n in (("train", 48), ("test", 12)):
        for i in range(n):
            label = ("left", "right")[i % 2]
            path = folder / split / label / f"{i}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(bright(label, rng)).save(path)
    return folder


@pytest.fixture(scope="module")
def recipe(pictures, tmp_path_factory):
    settings = {
        "task": "classification",
        "data": {
            "folder": str(pictures),
            "train": "train",
            "test": "test",
            "hold_out": 8,
            "augment": {"crop": 1, "colour": 0.1, "mixup": 0.1},
        },
        "model": {
            "preset": "vit2021",
            "n_layers": 2,
            "d_model": 24,
            "n_heads": 2,
            "d_ff": 48,
            "patch_size": 4,
            "dropout": 0.0,
        },
        "train": {
            "max_steps": 120,
            "batch_size": 16,
            "lr": 3e-3,
            "warmup_steps": 5,
            "save_every": 40,
            "eval_every": 40,
            "log_every": 10,
            "precision": "fp32",
        },
    }
    path = tmp_path_factory.mktemp("recipe") / "halves.yaml"
    path.write_text(yaml.safe_dump(settings))
    return path


@pytest.fixture(scope="module")
def run(recipe, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "halves"
    train(load_recipe(str(recipe)), out)
    return regard.load(out)


def test_a_recipe_may_say_classification(recipe):
    assert load_recipe(str(recipe)).task == "image_classification"
    with pytest.raises(ConfigError, match="'transformer' has no setting 'patch_size'"):
        load_recipe(str(recipe), ["preset=transformer"])


def test_it_learns(run):
    scores = json.loads((run.folder.path / "scores.json").read_text())["scores"]
    assert scores["test"]["accuracy"] >= 0.9
    assert TASKS[run.task].evaluate(run).scores["accuracy"] >= 0.9


def test_a_training_that_was_stopped_goes_on_bit_for_bit(recipe, run, tmp_path):
    def stop(event):
        if event["step"] >= 60:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(load_recipe(str(recipe)), tmp_path / "half", observers=[stop])
    train(load_recipe(str(recipe)), tmp_path / "half", resume=True)
    first, second = (one.model.state_dict() for one in (run, regard.load(tmp_path / "half")))
    assert all((first[name] == second[name]).all() for name in first)


def test_pictures_come_in_many_forms(run, pictures):
    path = pictures / "test" / "left" / "0.png"
    pixels = np.asarray(Image.open(path))
    forms = [str(path), path, path.read_bytes(), pixels, Image.open(path)]
    assert run.classify(forms) == ["left"] * 5
    label, probability = run.classify(path, with_scores=True)
    assert label == "left"
    assert 0.5 < probability <= 1
    with pytest.raises(DataError, match="expected a picture"):
        run.classify(3.5)


def test_an_image_of_pillow_is_turned_as_its_camera_was(run, pictures, tmp_path):
    with Image.open(pictures / "test" / "left" / "0.png") as picture:
        exif = picture.getexif()
        exif[0x0112] = 3  # upside down
        picture.save(tmp_path / "turned.png", exif=exif)
    with Image.open(tmp_path / "turned.png") as turned:
        assert run.classify([turned, tmp_path / "turned.png"]) == ["right"] * 2


def test_a_look_is_of_patches_over_the_picture(run, pictures):
    look = run.explain(pictures / "test" / "left" / "0.png")
    assert look.weights("encoder.self").shape == (2, 5, 5)
    assert look.tokens_of("encoder.self")[0] == ("<cls>", "0,0", "0,1", "1,0", "1,1")
    payload = look.as_json()
    assert payload["sides"]["source"]["grid"] == [2, 2]
    assert payload["picture"].startswith("data:image/png;base64,")
    assert look.answer == "left"


def test_a_look_under_an_edit_says_so(run, pictures):
    path = pictures / "test" / "left" / "0.png"
    ablate = {"kind": "ablate", "name": "encoder.self", "layer": 0, "head": 1}
    assert run.explain(path, edit=ablate).edits[0]["head"] == 1


def test_heads_are_measured_on_pictures(run):
    found = head_measures(run, split="test", n=8)
    assert found.n == 8
    assert len(found.rows) == 4


def test_the_command_line_reads_files_and_lines(run, pictures, capsys, monkeypatch):
    path = str(pictures / "test" / "right" / "1.png")
    assert main(["classify", str(run.folder.path), path, path]) == 0
    assert [line.split("\t")[0] for line in capsys.readouterr().out.splitlines()] == ["right"] * 2
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(f"{path}\n".encode())))
    assert main(["classify", str(run.folder.path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["label"] == "right"
    assert main(["classify", str(run.folder.path), "nowhere.png"]) != 0
    assert "input 1: nowhere.png" in capsys.readouterr().err


def test_over_http_a_picture_is_a_data_url_and_no_file_is_read(run, pictures):
    path = pictures / "test" / "right" / "1.png"
    url = "data:image/png;base64," + base64.b64encode(path.read_bytes()).decode()
    with TestClient(make_app(run, loopback=False)) as client:
        answer = client.post("/api/classify", json={"image": url})
        assert answer.json()["label"] == "right"
        assert client.post("/api/classify", json={"image": str(path)}).status_code == 422
        bad = client.post("/api/classify", json={"image": "data:image/png;base64,AAAA"})
        assert bad.status_code == 422
        assert "not a picture" in bad.text
        form = client.get("/api/info").json()["form"]
        assert form["fields"][0]["kind"] == "image"


def archived(folder, kind):
    """A folder of classes, or an archive of it; -> its name."""
    if kind == "folder":
        return folder.name
    return Path(shutil.make_archive(str(folder), kind, folder.parent, folder.name)).name


@pytest.mark.parametrize("workers", [False, True])
@pytest.mark.parametrize("kind", ["folder", "zip", "gztar"])
def test_a_damaged_picture_is_told_in_one_line(
    recipe, pictures, kind, workers, tmp_path, capsys, monkeypatch
):
    folder = tmp_path / "some"
    shutil.copytree(pictures / "train", folder)
    noise = np.random.default_rng(1).integers(0, 255, (40, 40, 3), np.uint8)
    Image.fromarray(noise).save(folder / "left" / "6.png")
    data = (folder / "left" / "6.png").read_bytes()
    (folder / "left" / "6.png").write_bytes(data[: len(data) // 2])
    given = archived(folder, kind)
    if workers:
        monkeypatch.setattr("regard.data.pictures.ALONE", 1)
    asked = [f"folder={tmp_path}", f"train={given}", "test=null", f"image_size={SIDE}"]
    flags = [word for one in asked for word in ("--set", one)]
    assert main(["train", str(recipe), "--out", str(tmp_path / "run"), *flags]) == 2
    inside = "" if kind == "folder" else "some/"
    where = re.escape(f"{tmp_path / given}/{inside}left/6.png")
    lines = capsys.readouterr().err.splitlines()
    (told,) = (line for line in lines if not line.startswith("preparing "))  # if it is slow
    assert re.fullmatch(rf"regard: {where}: the picture is damaged or cut off \(.*\)", told)


def test_patches_fit_the_pictures_that_are_asked_for(recipe):
    """Whatever divides data.image_size will do; what does not is told."""
    sets = ["data.image_size=20", "model.patch_size=5"]
    assert load_recipe(str(recipe), sets).data.image_size == 20
    assert load_recipe(str(recipe), ["model.patch_size=7"]).data.image_size is None
    with pytest.raises(ConfigError, match="not a whole number of patches"):
        load_recipe(str(recipe), ["data.image_size=20", "model.patch_size=7"])
