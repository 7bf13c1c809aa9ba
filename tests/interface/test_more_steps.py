"""``regard train --resume --out RUN``: a run goes on, with more steps where they are asked for."""

import json
import shutil

import pytest
import yaml
from safetensors.torch import load_file

from regard.runs.train import train
from regard.tasks.recipe import recipe_from, remember_data

FEW = {"max_steps": 4, "save_every": 4, "eval_every": 4, "log_every": 2}


@pytest.fixture(scope="module")
def mine(settings, tmp_path_factory):
    """A recipe of four steps, and the finished run of it."""
    folder = tmp_path_factory.mktemp("mine")
    raw = {**settings, "train": {**settings["train"], **FEW}}
    (folder / "mine.yaml").write_text(yaml.safe_dump(raw))
    train(recipe_from(raw), folder / "run", test_sets=())
    return folder


@pytest.fixture
def four_steps(mine, settings, tmp_path):
    """The recipe, and a copy of the run."""
    out = shutil.copytree(mine / "run", tmp_path / "run")
    remember_data(out, recipe_from(settings).data)
    return mine / "mine.yaml", out


def test_a_finished_run_is_given_more_steps_and_becomes_the_run_that_had_them_at_once(
    run, four_steps, tmp_path
):
    recipe, out = four_steps
    code, told, err = run("train", "--resume", "--out", out, "--set", "max_steps=8")
    assert code == 0, err
    assert "resuming at step 4" in err
    assert "reached max_steps=8" in told
    assert json.loads((out / "scores.json").read_text())["measured"]["steps"] == 8
    assert yaml.safe_load((out / "config.yaml").read_text())["train"]["max_steps"] == 8
    run("train", recipe, "--out", tmp_path / "once", "--set", "max_steps=8")
    names = sorted(path.name for path in (out / "checkpoints").glob("step-*8.safetensors"))
    ours, theirs = (load_file(x / "checkpoints" / names[0]) for x in (out, tmp_path / "once"))
    assert {*ours} == {*theirs}
    assert all(ours[name].equal(theirs[name]) for name in ours)


def test_a_run_that_was_stopped_finds_its_recipe_in_the_folder(run, four_steps):
    _, out = four_steps
    (out / "scores.json").unlink()  # as if killed just before its end
    code, told, err = run("train", "--resume", "--out", out)
    assert code == 0, err
    assert "resuming at step 4" in err
    assert (out / "scores.json").exists()
    code, told, _ = run("train", "--resume", "--out", out)
    assert "nothing is left to resume" in told
    assert "max_steps=" in told


def test_saving_and_validating_may_change_and_fewer_steps_are_no_reason_to_train(run, four_steps):
    _, out = four_steps
    asked = ["--set", "eval_every=2", "--set", "save_every=2", "--set", "max_steps=3"]
    before = (out / "model.safetensors").read_bytes()
    code, told, _ = run("train", "--resume", "--out", out, *asked)
    assert code == 0
    assert "nothing is left to resume" in told
    assert (out / "model.safetensors").read_bytes() == before


def test_what_may_not_change_is_told_with_the_way_out(refused, four_steps):
    _, out = four_steps
    message = refused(
        "train", "--resume", "--out", out, "--set", "max_steps=8", "--set", "train.seed=9"
    )
    assert "train.seed was 1 and is now 9" in message
    assert "max_steps was" not in message
    assert f"train.init={out}" in message
    assert "only train.max_steps" in message


def test_a_schedule_that_ends_at_max_steps_says_what_becomes_of_the_rate(run, four_steps, tmp_path):
    recipe, _ = four_steps
    out, linear = tmp_path / "linear", ("--set", "schedule=linear", "--set", "warmup_steps=1")
    run("train", recipe, "--out", out, *linear)
    _, _, err = run("train", "--resume", "--out", out, "--set", "max_steps=8")
    (line,) = [one for one in err.splitlines() if "schedule linear" in one]
    assert line == (
        "schedule linear now falls to zero at step 8, not 4: the learning rate of step 5 is "
        "2.50e-03, not 0.00e+00"
    )


def test_a_finished_run_without_checkpoints_says_how_to_start_from_its_weights(refused, four_steps):
    _, out = four_steps
    shutil.rmtree(out / "checkpoints")
    message = refused("train", "--resume", "--out", out, "--set", "max_steps=8")
    assert f"train.init={out}" in message
    assert (out / "scores.json").exists()


def test_a_folder_that_came_from_elsewhere_does_not_name_the_data_that_is_read(
    refused, mine, tmp_path
):
    out = shutil.copytree(mine / "run", tmp_path / "theirs")
    message = refused("train", "--resume", "--out", out, "--set", "max_steps=8")
    assert "was not trained here" in message
    assert str(out / "config.yaml") in message


def test_without_recipe_and_folder_both_ways_are_told(refused):
    message = refused("train", "--resume")
    assert "regard recipes" in message
    assert "--resume --out RUN" in message


def test_a_new_training_says_what_it_does_before_its_first_metrics(run, mine, tmp_path):
    _, _, err = run("train", mine / "mine.yaml", "--out", tmp_path / "new", "--set", "patience=3")
    told = [line for line in err.splitlines() if not line.startswith("preparing ")]  # if it is slow
    first = told[0]
    assert first.startswith("training ")
    assert first.endswith(f" parameters into {tmp_path / 'new'}, until max_steps=4 or patience=3")
