"""A real training process is killed; the resumed run ends with the very same weights."""

import random
import signal
import time

import pytest
import yaml
from programs import said

# Dies in the middle of writing the n-th snapshot: the temporary file is there, the rename is not.
KILLED_WHILE_WRITING = """
import os, signal, sys
from pathlib import Path
from regard.cli.main import main
replace, calls = Path.replace, []
def dying(self, target):
    if "step-" in self.name:
        calls.append(self)
        if len(calls) == {n}:
            os.kill(os.getpid(), signal.SIGKILL)
    return replace(self, target)
Path.replace = dying
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture
def recipe(settings, tmp_path):
    slower = {**settings, "train": {**settings["train"], "max_steps": 94, "average": 0.9}}
    slower["model"] = {**settings["model"], "dropout": 0.1}
    path = tmp_path / "recipe.yaml"
    path.write_text(yaml.safe_dump(slower))
    return path


def words(recipe, out, *flags):
    return ["train", str(recipe), "--out", str(out), *flags]


def weights(out):
    """The best weights, and the last snapshot: every tensor of the training."""
    last = max((out / "checkpoints").glob("step-*.safetensors"))
    return (out / "model.safetensors").read_bytes(), strip_clock(last)


def strip_clock(path):
    """Tensors by name; the header's seconds differ from run to run."""
    from regard.checkpoints.snapshots import load_snapshot

    snapshot = load_snapshot(path)
    facts = {**snapshot.facts, "progress": {**snapshot.facts["progress"], "seconds": 0}}
    return snapshot.step, facts, {name: t.tolist() for name, t in snapshot.tensors.items()}


@pytest.mark.slow
def test_killed_at_any_moment_and_resumed_it_ends_with_the_same_weights(
    say, started, recipe, tmp_path
):
    whole = tmp_path / "whole"
    assert say(*words(recipe, whole))[0] == 0
    wanted = weights(whole)

    killed = tmp_path / "killed"
    dead = started("-c", KILLED_WHILE_WRITING.format(n=2), *words(recipe, killed))
    said(dead)
    assert dead.returncode == -signal.SIGKILL
    assert list((killed / "checkpoints").glob("*.partial"))

    rng = random.Random(4)
    for _ in range(3):
        process = started("-m", "regard", *words(recipe, killed, "--resume"))
        wait_for_news(killed, process)
        time.sleep(rng.uniform(0, 0.2))
        process.kill()
        process.communicate()
        assert process.returncode == -signal.SIGKILL  # it was still training
    code, _, told = say(*words(recipe, killed, "--resume"))
    assert code == 0, told
    assert weights(killed) == wanted
    assert not list((killed / "checkpoints").glob("*.partial"))
    assert steps(killed) == steps(whole)

    code, out, _ = say(*words(recipe, killed, "--resume"))
    assert code == 0
    assert "finished" in out


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_polite_signal_finishes_the_step_saves_and_says_so(started, recipe, tmp_path, name):
    out = tmp_path / "run"
    process = started("-m", "regard", *words(recipe, out, "--set", "max_steps=100000"))
    wait_for(lambda: n_lines(out) > 2)
    number = signal.Signals[name]
    process.send_signal(number)
    _, errors = said(process)
    assert process.returncode == 128 + number
    last = errors.strip().split("\n")[-1]
    assert last.startswith(f"regard: stopped by {name} after step")
    assert "--resume" in last
    assert "Traceback" not in errors
    assert list((out / "checkpoints").glob("step-*.safetensors"))


def wait_for_news(out, process):
    """Until the process has written a line of metrics, or has ended."""
    before = n_lines(out)
    wait_for(lambda: n_lines(out) > before or process.poll() is not None)


def n_lines(out):
    path = out / "metrics.jsonl"
    return path.read_text().count("\n") if path.exists() else 0


def steps(out):
    return [line.split(",")[0] for line in (out / "metrics.jsonl").read_text().split("\n")]


def wait_for(condition, seconds=120):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.02)
