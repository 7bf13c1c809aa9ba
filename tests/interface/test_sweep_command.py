"""``regard sweep``: trials of settings, chosen on the validation alone."""

import json
import os
import re
import signal

import pytest
import yaml

from regard.training.metrics import read_metrics

FEW = {"max_steps": 4, "save_every": 4, "eval_every": 2, "log_every": 2}


@pytest.fixture
def words(settings, tmp_path):
    """What to type, for a recipe of four steps."""
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump({**settings, "train": {**settings["train"], **FEW}}))
    return ["sweep", path, "--out", tmp_path / "sweep"]


def best_bleu(folder):
    lines = read_metrics(folder / "metrics.jsonl")
    return max(line["bleu"] for line in lines if line["kind"] == "valid")


def test_a_grid_is_trained_ranked_by_the_validation_and_never_tested(run, words, tmp_path):
    words += ["--set", "lr=1e-5,5e-3", "--set", "dropout=0.0,0.1", "--by", "valid.bleu"]
    code, shown, err = run(*words, "--json")
    assert code == 0, err
    told = json.loads(shown)
    assert (told["by"], told["search"]) == ("valid.bleu", "grid")
    assert len(told["trials"]) == 4
    scores = [trial["bleu"] for trial in told["trials"]]
    assert scores == sorted(scores, reverse=True)
    for trial in told["trials"]:
        lr, dropout = trial["settings"]["train.lr"], trial["settings"]["model.dropout"]
        folder = tmp_path / "sweep" / f"lr={lr},dropout={dropout}"
        assert trial["run"] == str(folder)
        assert trial["bleu"] == best_bleu(folder)
        assert json.loads((folder / "scores.json").read_text())["scores"] == {}  # of test sets
    assert any("train.lr=" in one and "edge" in one for one in told["warnings"])
    assert any("one seed" in one for one in told["warnings"])

    code, shown, err = run(*words)  # nothing is left to train
    assert (code, err) == (0, "")
    assert "warning: train.lr=" in shown
    assert f"best: lr={told['trials'][0]['settings']['train.lr']}" in shown
    page = (tmp_path / "sweep" / "sweep.html").read_text()
    assert page.count("<path") == 4  # a line a trial
    assert page.count("<td") == 4 * 7
    assert len((tmp_path / "sweep" / "sweep.csv").read_text().splitlines()) == 5


def test_halving_lets_the_better_half_go_on_with_more_steps(run, words):
    values = ["--set", "lr=1e-5,1e-4,1e-3,5e-3"]
    code, shown, err = run(*words, *values, "--search", "halving", "--json")
    assert code == 0, err
    trials = json.loads(shown)["trials"]
    assert [trial["steps"] for trial in trials] == [4, 2, 1, 1]
    assert "resuming at step 1" in err
    by_rate = {trial["settings"]["train.lr"]: trial["steps"] for trial in trials}
    assert by_rate["5e-3"] == 4  # the steepest start
    assert by_rate["1e-5"] == 1
    code, again, err = run(*words, *values, "--search", "halving", "--json")
    assert (again, err) == (shown, "")


def test_a_sweep_that_was_stopped_goes_on(run, words, monkeypatch):
    words += ["--set", "lr=1e-3,5e-3"]
    from regard.runs import progress

    described = progress.described
    with monkeypatch.context() as patched:

        def press(*some):
            os.kill(os.getpid(), signal.SIGINT)
            return described(*some)

        patched.setattr(progress, "described", press)
        code, _, err = run(*words)
    assert code == 128 + signal.SIGINT
    assert "the same command goes on from there" in err
    code, shown, err = run(*words, "--json")
    assert code == 0
    assert re.search("resuming at step [1-9]", err)
    assert [trial["steps"] for trial in json.loads(shown)["trials"]] == [4, 4]


def test_several_at_a_time_come_to_the_same(run, words, tmp_path):
    words += ["--set", "lr=1e-3,5e-3", "--set", "max_steps=1", "--json"]
    alone = json.loads(run(*words)[1])
    words[words.index("--out") + 1] = tmp_path / "beside"
    code, shown, err = run(*words, "--jobs", "2")
    assert code == 0, err
    assert err.count(": done (") == 2
    for ours, theirs in zip(json.loads(shown)["trials"], alone["trials"], strict=True):
        assert (ours["loss"], ours["settings"]) == (theirs["loss"], theirs["settings"])


def test_a_trial_that_fails_says_why_and_leaves_the_others(run, words):
    code, shown, err = run(*words, "--set", "lr=1e-3,1e30", "--set", "clip=0")
    assert code == 0
    assert re.search(r"regard: lr=1e30 failed: the (loss|gradient) became", err)
    assert "best: lr=1e-3" in shown
    assert "failed" in shown


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (["--set", "lr=1e-3"], "nothing to sweep"),
        (["--set", "lr=1e-3,2e-3", "--by", "test.bleu"], "chosen on the validation alone"),
        (["--set", "lr=1e-3,2e-3", "--by", "valid.blue"], "did you mean 'bleu'"),
        (["--set", "lr=1e-3,2e-3", "--search", "halvin"], "did you mean 'halving'"),
        (["--set", "lr=1..3", "--search", "grid"], "--search random"),
        (["--set", "lr=1,2,3", "--trials", "2", "--search", "grid"], "the grid has 3 points"),
        (["--set", "lr=1,2", "--trials", "0"], "--trials 0"),
    ],
)
def test_what_cannot_be_done_is_told_before_a_folder_is_made(
    refused, words, asked, message, tmp_path
):
    assert message in refused(*words, *asked)
    assert not (tmp_path / "sweep").exists()


def test_other_settings_than_before_are_refused(run, refused, words):
    run(*words, "--set", "lr=1e-3,5e-3", "--set", "max_steps=1")
    message = refused(*words, "--set", "lr=1e-3,5e-3", "--set", "max_steps=1", "--set", "seed=3")
    assert "recipe.train.seed was 1 and is now 3" in message
