"""A trained run goes on with a reward: it earns more, and is resumed bit for bit."""

import json

import pytest
import yaml
from safetensors.torch import load_file

from regard.checkpoints.snapshots import load_snapshot
from regard.cli.main import main
from regard.core.errors import ConfigError
from regard.runs.prepare import prepare
from regard.runs.train import train
from regard.tasks.opening import pick_device
from regard.tasks.recipe import recipe_from
from regard.training.metrics import read_metrics


def rewarded(settings, run, *, model=None, **changes):
    steps = {"max_steps": 4, "eval_every": 2, "save_every": 2, "log_every": 1, "samples": 4}
    train_ = {**settings["train"], "objective": "gleu", "init": str(run), **steps, **changes}
    return {**settings, "model": {**settings["model"], **(model or {})}, "train": train_}


@pytest.fixture(scope="module")
def recurrent(settings, tmp_path_factory):
    out = tmp_path_factory.mktemp("rewarded") / "luong"
    raw = {**settings, "model": {"preset": "luong2015", "d_model": 32}}
    train(recipe_from({**raw, "train": {**settings["train"], "max_steps": 60}}), out, test_sets=())
    return out


def test_a_few_steps_raise_the_reward(settings, recurrent, tmp_path):
    out = tmp_path / "run"
    fast = {"lr": 5e-3, "warmup_steps": 3, "likelihood_weight": 0.0}  # by the reward alone
    raw = rewarded(settings, recurrent, max_steps=35, eval_every=35, samples=8, **fast)
    raw["model"] = {"preset": "luong2015", "d_model": 32}
    train(recipe_from(raw), out, test_sets=("test",))
    lines = [line for line in read_metrics(out / "metrics.jsonl") if line["kind"] == "train"]
    earned = [-line["loss_rl"] for line in lines]
    first, last = sum(earned[:5]) / 5, sum(earned[-5:]) / 5
    assert 0 < first < last - 0.05 < 1
    assert all("loss_likelihood" in line for line in lines)
    (valid,) = (line for line in read_metrics(out / "metrics.jsonl") if line["kind"] == "valid")
    assert 0 < valid["gleu"] < 1
    assert "gleu" in json.loads((out / "scores.json").read_text())["scores"]["test"]


def test_it_is_resumed_bit_for_bit(settings, run_path, tmp_path):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    asked = recipe_from(rewarded(settings, run_path))
    train(asked, whole, test_sets=())
    train(asked, cut, test_sets=())
    newest = max((cut / "checkpoints").iterdir())
    assert load_snapshot(newest).step == 4
    newest.unlink()
    (cut / "scores.json").unlink()
    said = []
    train(asked, cut, resume=True, test_sets=(), say=said.append)
    assert "resuming at step 2" in said
    ours, theirs = (load_file(one / "model.safetensors") for one in (cut, whole))
    assert all(ours[name].equal(tensor) for name, tensor in theirs.items())
    parts = [load_snapshot(max((one / "checkpoints").iterdir())).tensors for one in (cut, whole)]
    assert all(parts[0][name].equal(tensor) for name, tensor in parts[1].items())


def test_it_begins_as_the_run_without_dropout_and_is_chosen_by_its_reward(
    settings, run_path, tmp_path
):
    raw = rewarded(settings, run_path, model={"dropout": 0.3})
    prepared = prepare(recipe_from(raw), pick_device("cpu"))
    assert prepared.config.dropout == 0
    assert any("dropout is off" in note for note in prepared.notes)
    assert prepared.recipe.train.criterion == "gleu"
    assert not prepared.compiled
    weights = load_file(run_path / "model.safetensors")
    ours = dict(prepared.model.named_parameters())
    assert all(ours[name].equal(weights[name]) for name in ours)
    by_loss = rewarded(settings, run_path, criterion="loss")
    assert recipe_from(by_loss).train.criterion == "loss"
    one = prepared.stream().next()
    likelihood = {**raw, "train": {**settings["train"]}}
    plain = prepare(recipe_from(likelihood), pick_device("cpu"))
    assert prepared.flops(one) > 5 * plain.flops(one)  # four samples, written and learned from


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"init": None}, "'gleu' rewards what a trained model writes: name a run to begin as"),
        ({"objective": "glue"}, "unknown train.objective 'glue' (did you mean 'gleu'?)"),
        ({"objective": "accuracy"}, "unknown train.objective 'accuracy'; known: likelihood, "),
        ({"compile": True}, "train.compile=true: train.objective=gleu learns from samples"),
        ({"samples": 1}, "train.samples"),
        ({"objective": "likelihood"}, "train.samples=4 does nothing with train.objective=likeli"),
        ({"criterion": "chrf"}, "train.criterion=chrf is for other tasks"),
    ],
)
def test_what_cannot_be_rewarded_is_told_in_a_line(
    settings, run_path, tmp_path, capsys, changes, told
):
    raw = rewarded(settings, run_path)
    raw["train"] = {name: x for name, x in {**raw["train"], **changes}.items() if x is not None}
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(raw))
    assert main(["train", str(path), "--out", str(tmp_path / "run")]) == 2
    error = capsys.readouterr().err
    assert told in error
    assert error.count("\n") == 1


def test_other_tasks_say_that_they_have_no_rewards(tmp_path):
    raw = {"task": "language", "data": {"world": "sentences"}, "train": {"max_steps": 1}}
    raw["train"] |= {"objective": "gleu", "init": "somewhere"}
    with pytest.raises(ConfigError, match="train.objective=gleu does nothing in the task language"):
        prepare(recipe_from(raw), pick_device("cpu"))
