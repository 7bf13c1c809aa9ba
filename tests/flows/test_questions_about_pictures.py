"""Questions about pictures, from files to answers: trained, resumed, scored, asked, looked into."""

import base64
import gzip
import io
import json
import re
import tarfile

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

SIDE = 16
COLOURS = {"red": 0, "blue": 2}
READERS = {
    "san2016": {},
    "dan2018": {},
    "dcn2018": {"combine": "add"},
    "joint-vqa": {"n_layers": 2, "n_heads": 2, "d_ff": 48, "encoder": "conv"},
}


def half(side, colour, rng):
    """A picture of which one half is red or blue."""
    pixels = rng.integers(0, 60, (SIDE, SIDE, 3)).astype(np.uint8)
    pixels[
        :, slice(0, SIDE // 2) if side == "left" else slice(SIDE // 2, SIDE), COLOURS[colour]
    ] = 250
    return pixels


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("questions"), np.random.default_rng(0)
    for split, n in (("train", 60), ("test", 12)):
        lines = []
        for i in range(n):
            side, colour = ("left", "right")[i % 2], ("red", "blue")[i // 2 % 2]
            (folder / split).mkdir(exist_ok=True)
            Image.fromarray(half(side, colour, rng)).save(folder / split / f"{i}.png")
            lines.append(f"{i}\twhich side?\t{side}\tplace\n{i}\tWhat colour?\t{colour}\tcolour\n")
        if split == "test":
            lines.append("0\tWhat is it?\ta half\tother\n")
        (folder / f"{split}.tsv").write_text("image\tquestion\tanswer\tkind\n" + "".join(lines))
    return folder


@pytest.fixture(scope="module")
def recipe(files, tmp_path_factory):
    settings = {
        "task": "visual_questions",
        "data": {
            "folder": str(files),
            "train": "train.tsv",
            "test": "test.tsv",
            "hold_out": 16,
            "images": {"train": "train", "test": "test"},
            "augment": {"colour": 0.1},
        },
        "text": {"kind": "word", "lowercase": True},
        "model": {"preset": "san2016", "d_model": 24, "dropout": 0.1, "max_len": 16},
        "train": {
            "max_steps": 60,
            "batch_size": 8,
            "lr": 3e-3,
            "warmup_steps": 5,
            "save_every": 20,
            "eval_every": 20,
            "log_every": 10,
            "label_smoothing": 0.0,
            "precision": "fp32",
        },
    }
    path = tmp_path_factory.mktemp("recipe") / "halves.yaml"
    path.write_text(yaml.safe_dump(settings))
    return path


def asked_for(recipe, preset):
    return load_recipe(
        str(recipe), [f"preset={preset}", *(f"{k}={v}" for k, v in READERS[preset].items())]
    )


@pytest.fixture(scope="module", params=READERS)
def preset(request):
    return request.param


@pytest.fixture(scope="module")
def run(recipe, preset, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / preset
    train(asked_for(recipe, preset), out)
    return regard.load(out)


def test_it_learns_and_an_unseen_answer_is_wrong_and_told(run):
    found = TASKS[run.task].evaluate(run)
    scores = found.scores
    assert scores["accuracy"] >= 0.9
    assert scores["n"] == 25
    kinds = scores["accuracy_by_kind"]
    assert {kind: part["n"] for kind, part in kinds.items()} == {
        "place": 12,
        "colour": 12,
        "other": 1,
    }
    assert kinds["other"]["accuracy"] == 0
    assert found.notes == (
        "test: 1 answer of 25 never seen in training, such as 'a half'; counted as wrong",
    )
    assert "looking" not in scores


def test_a_training_that_was_stopped_goes_on_bit_for_bit(recipe, run, preset, tmp_path):
    def stop(event):
        if event["step"] >= 30:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(asked_for(recipe, preset), tmp_path / "half", observers=[stop])
    train(asked_for(recipe, preset), tmp_path / "half", resume=True)
    first, second = (one.model.state_dict() for one in (run, regard.load(tmp_path / "half")))
    assert all((first[name] == second[name]).all() for name in first)


def test_losses_have_names(run, preset):
    lines = [json.loads(line) for line in run.folder.metrics.read_text().splitlines()]
    named = [one for one in lines if one["kind"] == "train" and "triplet" in json.dumps(one)]
    assert bool(named) == (preset == "dan2018")


def test_pictures_and_questions_one_or_many(run, files):
    red, blue = files / "test" / "0.png", str(files / "test" / "3.png")
    assert run.ask(red, "what colour?") == "red"
    assert run.ask(red, ["what colour?", "which side?"]) == ["red", "left"]
    assert run.ask([red, blue], "what colour?") == ["red", "blue"]
    assert run.ask([red, blue], ["What colour?", "which side?"]) == ["red", "right"]
    answer, probability = run.ask(red, "what colour?", with_scores=True)
    assert answer == "red"
    assert 0.3 < probability <= 1
    with pytest.raises(DataError, match="2 questions about 3 pictures"):
        run.ask([red] * 3, ["a", "b"])
    with pytest.raises(DataError, match="the question is empty"):
        run.ask(red, " ")


def test_a_look_is_of_words_and_patches(run, files, preset):
    look = run.explain(files / "test" / "0.png", "what colour?")
    assert look.answer == "red"
    payload = look.as_json()
    assert payload["picture"].startswith("data:image/png;base64,")
    assert payload["outcome"]["kind"] == "label"
    if preset == "joint-vqa":
        assert look.weights("joint.self").shape == (2, 8, 8)
        labels = ("<s>", "what", "colour", "?", "0,0", "0,1", "1,0", "1,1")
        assert look.tokens_of("joint.self") == (labels, labels)
        assert look.rollout().shape == (8, 8)
    else:
        assert [one.shape for one in look.attentions["looks"]] == [(1, 1, 4)] * 2
        assert look.tokens_of("looks") == (("what colour?",), ("0,0", "0,1", "1,0", "1,1"))
        assert look.steps(0).columns == ("0,0", "0,1", "1,0", "1,1")
    assert "what colour?" in look.as_file("html")
    assert "<svg" in look.as_file("svg")
    with pytest.raises(ConfigError, match="Give a question beside the picture"):
        run.explain(files / "test" / "0.png")


def test_a_look_under_an_edit_says_so(run, files, preset):
    name = "joint.self" if preset == "joint-vqa" else "looks"
    ablate = {"kind": "ablate", "name": name, "layer": 1, "head": 0}
    look = run.explain(files / "test" / "0.png", "what colour?", edit=ablate)
    assert look.edits[0]["name"] == name
    swap = {"kind": "swap", "first": 0, "second": 1}
    assert run.explain(files / "test" / "0.png", "colour what?", edit=swap).source == "what colour?"
    forced = {"kind": "force_token", "position": 0, "token": "a"}
    with pytest.raises(ConfigError, match="writes no words"):
        run.explain(files / "test" / "0.png", "what colour?", edit=forced)


def test_heads_are_measured_on_questions(run, preset):
    found = head_measures(run, split="test", n=8)
    assert len(found.rows) == (4 if preset == "joint-vqa" else 2)
    assert found.rows[0]["accuracy_change"] is not None
    assert "pointing" not in found.rows[0]


def test_the_command_line(run, files, capsys, monkeypatch):
    path, other = (str(files / "test" / f"{i}.png") for i in (0, 3))
    folder = str(run.folder.path)
    assert main(["ask", folder, path, other, "--question", "what colour?"]) == 0
    assert [line.split("\t")[0] for line in capsys.readouterr().out.splitlines()] == ["red", "blue"]
    lines = f"{path}\twhich side?\n".encode()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(lines)))
    assert main(["ask", folder, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["image"], told["question"], told["answer"]) == (path, "which side?", "left")
    assert main(["ask", folder, path, "--question", "what " * 16]) == 0
    assert "1 picture with a question cut to 16 tokens" in capsys.readouterr().err
    assert main(["ask", folder, path]) == 2
    assert "input 1: expected a picture's file and a question" in capsys.readouterr().err
    assert main(["explain", folder, path, "what colour?"]) == 0
    shown = capsys.readouterr().out
    assert "red" in shown
    assert main(["explain", folder, path, "--question", "what colour?"]) == 0
    assert capsys.readouterr().out == shown
    assert main(["explain", folder, path, "which side?", "--question", "what colour?"]) == 2
    assert "the question is given twice" in capsys.readouterr().err
    assert main(["evaluate", folder]) == 0
    assert re.search(r"colour\s.*100", capsys.readouterr().out)


def test_a_file_is_scored_where_its_pictures_lie(run, files, tmp_path, capsys):
    (files / "test" / "more.tsv").write_text(
        "which side?\tright\t1.png\nwhich side?\tleft\t1.png\n"
    )
    recipe = run.recipe
    assert recipe.data.images is not None
    found = TASKS[run.task].score_file(run, files / "test" / "more.tsv")
    assert found.scores["accuracy"] == 0.5


def test_over_http(run, files):
    path = files / "test" / "3.png"
    url = "data:image/png;base64," + base64.b64encode(path.read_bytes()).decode()
    with TestClient(make_app(run, loopback=False)) as client:
        answer = client.post("/api/ask", json={"image": url, "question": "which colour?"}).json()
        assert answer["labels"][0]["label"] == answer["answer"]
        assert answer["unknown"] == []
        assert client.post("/api/ask", json={"image": url}).status_code == 422
        long = client.post("/api/ask", json={"image": url, "question": "what " * 40})
        assert long.status_code == 422
        assert "at most 15 go in" in long.text
        form = client.get("/api/info").json()["form"]
        assert [(one["name"], one["kind"]) for one in form["fields"]] == [
            ("image", "image"),
            ("question", "text"),
        ]


def test_what_cannot_be_is_refused(recipe, tmp_path):
    with pytest.raises(ConfigError, match="mixup and cutmix mix pictures and their labels"):
        train(load_recipe(str(recipe), ["augment={mixup: 0.2}"]), tmp_path / "a")
    with pytest.raises(ConfigError, match="margin would do nothing"):
        load_recipe(str(recipe), ["margin=0.5"])


# ------------------------------------------------------------------ recipes of real data

TINY = ["d_model=16", "max_steps=4", "warmup_steps=2", "batch_size=4", "eval_every=2"]


def archive(path, folder, names, rng):
    with tarfile.open(path, "w:xz") as tar:
        for name in names:
            file = io.BytesIO()
            Image.fromarray(rng.integers(0, 255, (24, 16, 3)).astype(np.uint8)).save(file, "png")
            info = tarfile.TarInfo(f"{folder}/{name}")
            info.size = file.tell()
            tar.addfile(info, io.BytesIO(file.getvalue()))


def scored(recipe, folder, out, *settings):
    flags = [f"folder={folder}", *TINY, *settings]
    return train(load_recipe(recipe, flags), out).evaluations["test"]


def test_pictures_of_each_split_in_an_archive_of_their_own(tmp_path):
    """easy-VQA: the pictures of both splits are called by the same numbers."""
    rng = np.random.default_rng(1)
    for split, n in (("train", 30), ("test", 4)):
        archive(tmp_path / f"images.{split}.tar.xz", split, [f"{i}.png" for i in range(n)], rng)
        lines = "".join(f"is it {i % 3}?\t{'yes' if i % 2 else 'no'}\t{i}\n" for i in range(n))
        (tmp_path / f"questions.{split}.tsv.gz").write_bytes(gzip.compress(lines.encode()))
    assert scored("easy-vqa", tmp_path, tmp_path / "run").scores["n"] == 4


def test_answers_in_any_case_by_type(tmp_path):
    """VQA-RAD: real answers are written in many ways, and open ones are often new."""
    rng = np.random.default_rng(2)
    archive(tmp_path / "images.tar.xz", "images", [f"x{i}.jpg" for i in range(40)], rng)
    said = [("CLOSED", ("Yes", "yes", "NO")[i % 3]) for i in range(40)]
    said += [("OPEN", i) for i in range(40)]  # each answer once
    rows = [
        {"image_name": f"x{i % 40}.jpg", "question": f"{kind}?", "answer": x, "answer_type": kind}
        for i, (kind, x) in enumerate(said)
    ]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "train.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    settings = ("hold_out=8", "image_size=16")
    found = scored("vqa-rad", tmp_path, tmp_path / "run", *settings)
    assert {*found.scores["accuracy_by_kind"]} == {"OPEN", "CLOSED"}
    assert found.scores["accuracy_by_kind"]["OPEN"]["accuracy"] == 0
    assert "never seen in training" in found.notes[0]
    names = json.loads((tmp_path / "run" / "labels.json").read_text())["labels"]
    assert {"yes", "no"} <= {*names}
    assert not {"Yes", "NO"} & {*names}
