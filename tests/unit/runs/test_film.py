"""The film of a training: frames of one example, which cost the training nothing but time."""

import base64
import json
import zlib
from pathlib import Path

import numpy as np
import pytest
from encoders import settings as encoder_settings
from picture_runs import captioning_recipe
from safetensors.torch import load_file
from text_runs import WRITE, language

import regard
from regard.runs import film
from regard.runs.train import train
from regard.tasks.film import film_strip, read_film
from regard.tasks.recipe import recipe_from
from regard.visual.payload import packed, unpacked


def filmed(settings, **changes):
    return recipe_from({**settings, "train": {**settings["train"], "film": True, **changes}})


def steps_of(out):
    return [frame["step"] for frame in read_film(out / "film.jsonl")]


@pytest.fixture(scope="module")
def out(settings, tmp_path_factory):
    """A run whose last weights are its best, filmed."""
    folder = tmp_path_factory.mktemp("filmed") / "run"
    train(filmed(settings), folder, test_sets=())
    return folder


def test_a_film_has_a_frame_before_the_first_step_and_one_a_validation(out):
    assert steps_of(out) == [0, 15, 30]


def test_filming_tells_nobody_that_a_text_was_cut_off(settings, tmp_path, caplog):
    short = {**settings, "decode": {"max_len": 2}}
    train(filmed(short, max_steps=1), tmp_path / "run", test_sets=())
    told = [one for one in caplog.records if "cut off" in one.getMessage()]
    assert len(told) == 1  # of the report's own look


def test_filming_changes_no_weight(settings, tmp_path):
    """Dropout draws numbers, of which a film must not take any; nor does going on change them."""
    drops = {**settings, "model": {**settings["model"], "dropout": 0.3}}
    plain, whole, halves = (tmp_path / name for name in ("plain", "whole", "halves"))
    train(recipe_from(drops), plain, test_sets=())
    train(filmed(drops), whole, test_sets=())
    train(filmed(drops, max_steps=20), halves, test_sets=())
    train(filmed(drops), halves, resume=True, test_sets=())
    wanted, *others = (load_file(one / "model.safetensors") for one in (plain, whole, halves))
    changed = [[x for x in wanted if not found[x].equal(wanted[x])] for found in others]
    assert changed == [[], []]  # neither by the film nor by going on
    assert not (plain / "film.jsonl").exists()  # only where it is asked for


def test_a_frame_is_what_the_run_of_those_weights_says_and_sees(out):
    best = json.loads((out / "scores.json").read_text())["measured"]["best_step"]
    frame = next(one for one in read_film(out / "film.jsonl") if one["step"] == best)
    run, look = regard.load(out, device="cpu"), frame["look"]
    assert frame["said"] == run.translate(look["source"])
    seen = run.explain(look["source"], target=look["answer"])
    assert {*look["attentions"]} == {*seen.attentions}
    for name, layers in seen.attentions.items():
        for kept, weights in zip(look["attentions"][name], layers, strict=True):
            np.testing.assert_allclose(unpacked(kept), weights, atol=0.5 / 255 + 1e-6)
    np.testing.assert_allclose(look["probabilities"], seen.written.probabilities, rtol=1e-4)


def test_all_frames_are_of_one_held_out_pair(out, corpus):
    looks = [frame["look"] for frame in read_film(out / "film.jsonl")]
    (pair,) = {(look["source"], look["answer"]) for look in looks}
    valid = (Path(name).read_text().splitlines() for name in corpus["valid"])
    assert pair in zip(*valid, strict=True)
    assert looks[0]["attentions"] != looks[-1]["attentions"]


def test_a_training_that_goes_on_has_no_frame_twice(settings, tmp_path):
    train(filmed(settings, max_steps=20), tmp_path / "run", test_sets=())
    path = tmp_path / "run" / "film.jsonl"
    assert steps_of(tmp_path / "run") == [0, 15, 20]
    lost = {**read_film(path)[-1], "step": 45, "said": "of a training that was killed"}
    path.write_text(path.read_text() + json.dumps(lost) + '\n{"step": 46, "sai')
    train(filmed(settings), tmp_path / "run", resume=True, test_sets=())
    assert steps_of(tmp_path / "run") == [0, 15, 20, 30]
    assert path.read_text().count("\n") == 4
    train(recipe_from(settings), tmp_path / "run", overwrite=True, test_sets=())
    assert not path.exists()


def test_a_long_film_keeps_its_ends_and_steps_about_evenly_apart(settings, tmp_path, monkeypatch):
    monkeypatch.setattr(film, "FRAMES", 5)
    train(filmed(settings, eval_every=2), tmp_path / "run", test_sets=())
    steps = steps_of(tmp_path / "run")
    assert (len(steps), steps[0], steps[-1]) == (5, 0, 30)
    apart = np.diff(steps)
    assert apart.max() <= 2 * apart.min() + 2
    monkeypatch.setattr(film, "BYTES", 1)
    train(filmed(settings, eval_every=10), tmp_path / "run", overwrite=True, test_sets=())
    assert steps_of(tmp_path / "run") == [0, 30]


@pytest.mark.parametrize("kind", ["language", "classification", "captioning"])
def test_other_tasks_are_filmed_as_translators_are(kind, tmp_path):
    if kind == "captioning":
        raw = captioning_recipe(tmp_path / "data").model_dump(mode="json")
    else:
        make = {"language": language}.get(kind)
        raw = make(tmp_path) if make else encoder_settings(kind, tmp_path, WRITE[kind])
    few = {"max_steps": 4, "eval_every": 2}
    train(filmed(raw, **few), tmp_path / "run", test_sets=())
    frames = read_film(tmp_path / "run" / "film.jsonl")
    assert [frame["step"] for frame in frames] == [0, 2, 4]
    assert all(frame["look"]["attentions"] for frame in frames)


def test_the_report_shows_the_first_and_the_last_frame(out, run_path):
    page = (out / "report.html").read_text()
    assert "Before the first step of the training: " in page
    assert "At step 30 of the training: " in page
    assert "of the training: " not in (run_path / "report.html").read_text()


@pytest.mark.parametrize(("bits", "near"), [(8, 0.5 / 255), (32, 0.0)])
def test_what_was_packed_is_unpacked(bits, near):
    weights = np.random.default_rng(0).random((2, 3, 5), dtype=np.float32)
    found = unpacked(packed(weights, bits=bits))
    np.testing.assert_allclose(found, weights, atol=near + 1e-7, rtol=0)


def damaged(one):
    """Weights that somebody wrote who does not know how, or who wants the memory of others."""
    bomb = base64.b64encode(zlib.compress(bytes(10**6))).decode()
    yield {**one, "data": "no base64"}
    yield {**one, "data": one["data"][: len(one["data"]) // 2]}
    yield {**one, "data": bomb}
    yield {**one, "shape": [10**9, 10**9, 10**9]}


def test_weights_that_are_none_are_refused_and_their_frame_is_left_out(out, tmp_path):
    frame = read_film(out / "film.jsonl")[0]
    (name, layers), *_ = frame["look"]["attentions"].items()
    for one in damaged(layers[0]):
        with pytest.raises(ValueError, match="not packed weights|base64|padd"):
            unpacked(one)
        look = {**frame["look"], "attentions": {name: [one]}}
        (tmp_path / "film.jsonl").write_text(json.dumps({**frame, "look": look}))
        assert film_strip(tmp_path / "film.jsonl") == []
    assert len(film_strip(out / "film.jsonl")) == 3


def test_what_is_no_frame_is_left_out(tmp_path):
    path = tmp_path / "film.jsonl"
    assert read_film(path) == []
    good = {"step": 3, "said": "x", "look": {"attentions": {}}}
    bad = [{**good, "step": "3"}, {**good, "said": 3}, {**good, "look": []}, [], 7]
    path.write_text("".join(json.dumps(one) + "\n" for one in [*bad, good]) + "{")
    assert read_film(path) == [good]
    path.write_bytes(b"\xff\n" + path.read_bytes())  # one damaged byte costs its line
    assert read_film(path) == [good]
    (tmp_path / "link.jsonl").symlink_to(path)
    assert read_film(tmp_path / "link.jsonl") == []
