"""Several processes that train one model are one process that does it all."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
import yaml
from programs import descendants, said
from safetensors.torch import load_file
from several_processes import together

from regard.checkpoints.lock import NAME, FolderLock, locked
from regard.checkpoints.sharded import complete_steps, read_snapshot
from regard.cli.main import main
from regard.core.errors import CheckpointError
from regard.recipes.recipe import load_recipe
from regard.runs.average import average
from regard.runs.train import train
from regard.tasks.recipe import recipe_from
from regard.training.distributed import Ranks

pytestmark = pytest.mark.skipif(
    not torch.distributed.is_gloo_available(), reason="processes of a CPU talk by gloo"
)


def changed(settings, dropout=0.1, **more):
    """Updates of four micro-batches; with dropout, so that draws must agree."""
    train_ = {**settings["train"], "accumulate": 4, "batch_tokens": 64, **more}
    return {**settings, "model": {**settings["model"], "dropout": dropout}, "train": train_}


def digest(out):
    return hashlib.sha256((out / "model.safetensors").read_bytes()).hexdigest()


def scores(out):
    """Of the validations of a training."""
    lines = map(json.loads, (out / "metrics.jsonl").read_text().splitlines())
    keys = ("step", "loss", "bleu", "tokens", "flops")
    return [[line[key] for key in keys] for line in lines if line["kind"] == "valid"]


def apart(first, second):
    """The largest difference of two runs' weights."""
    a, b = (load_file(one / "model.safetensors") for one in (first, second))
    assert a.keys() == b.keys()
    return max((a[name] - b[name]).abs().max().item() for name in a)


@pytest.fixture(scope="module")
def runs(settings, tmp_path_factory):
    """Trainings of one process, of two and of four, and what else they were asked for."""
    folder = tmp_path_factory.mktemp("together")
    exact = changed(settings, exact=True)
    # Adam makes a gradient that is zero but for rounding as large as others, unless eps is large.
    mild = {"optimiser_options": {"eps": 1e-3}}
    average = changed(settings, average=0.9, **mild)
    shard = {**average, "train": {**average["train"], "parallel": "shard"}}
    short = {**shard, "train": {**shard["train"], "max_steps": 20}}
    by_rows = changed(settings, dropout=0.0, accumulate=1, **mild)
    for name, one in (("exact", exact), ("plain", average), ("rows", by_rows)):
        train(recipe_from(one), folder / f"{name}-1", test_sets=())

    def out(name):
        return str(folder / name)

    two = together(
        2,
        [
            ["train", {"settings": exact, "out": out("exact-2")}],
            ["train", {"settings": average, "out": out("plain-2")}],
            ["train", {"settings": by_rows, "out": out("rows-2")}],
            ["train", {"settings": short, "out": out("short")}],
            ["train", {"settings": shard, "out": out("shard-2")}],
            *(["divide", {"n": n}] for n in (0, 1, 3)),
            ["writer_fails", {}],
            ["differ", {"settings": exact, "out": out("differ")}],
        ],
        folder,
    )
    three = changed(settings, accumulate=6, exact=True)
    hard = {**exact, "model": {**exact["model"], "normaliser": "hard"}}
    four = together(
        4,
        [
            ["train", {"settings": exact, "out": out("exact-4")}],
            ["refuse", {"settings": three, "out": out("three")}],
            ["refuse", {"settings": hard, "out": out("hard")}],
        ],
        folder,
    )
    return folder, dict(zip((2, 4), (two, four), strict=True))


@pytest.mark.slow
def test_exact_weights_are_the_same_bit_for_bit(runs):
    folder, _ = runs
    assert digest(folder / "exact-1") == digest(folder / "exact-2") == digest(folder / "exact-4")
    assert scores(folder / "exact-1") == scores(folder / "exact-2") == scores(folder / "exact-4")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["plain", "shard", "rows"])
def test_other_weights_are_the_same_but_for_rounding(runs, name):
    folder, _ = runs
    alone = folder / ("rows-1" if name == "rows" else "plain-1")
    assert apart(alone, folder / f"{name}-2") < 1e-4
    fresh = [apart(alone, folder / other) for other in ("exact-1", "short")]
    assert min(fresh) > 1e-4  # so it can be told


@pytest.mark.slow
def test_rows_of_a_batch_are_shared_where_there_are_fewer_batches_than_processes(runs):
    _, found = runs
    said = found[2][0][2]["said"]
    assert any("shared by 2 processes, by rows" in line for line in said)


@pytest.mark.slow
def test_a_validation_is_divided_and_finds_the_same(runs):
    _, found = runs
    for at, n in ((5, 0), (6, 1), (7, 3)):
        first, second = (rank[at] for rank in found[2])
        assert first["found"] == second["found"] == [x * x for x in range(n)]
        assert sorted(first["mine"] + second["mine"]) == [*range(n)]
        assert first["alone"] == [-x for x in range(n)]
    assert (first["mine"], second["mine"]) == ([0, 2], [1])


@pytest.mark.slow
def test_an_error_of_the_writer_is_raised_in_all(runs):
    _, found = runs
    assert [rank[8] for rank in found[2]] == ["no room"] * 2


@pytest.mark.slow
def test_processes_that_were_told_different_things_are_refused(runs):
    _, found = runs
    message = (
        "processes must be told the same: train.lr is 0.001 in process 0 and 0.002 in process 1"
    )
    assert [rank[9] for rank in found[2]] == [message] * 2


@pytest.mark.slow
def test_what_cannot_be_exact_is_refused(runs):
    _, found = runs
    for rank in found[4]:
        assert "4 processes and train.accumulate=6; both must be powers of two" in rank[1]
        assert "the baseline of rewards follows the batches of each process" in rank[2]


@pytest.mark.slow
def test_a_model_in_parts_goes_on_with_another_number_of_processes(runs, settings):
    folder, _ = runs
    checkpoints = folder / "short" / "checkpoints"
    step = complete_steps(checkpoints)[-1]
    assert step == 20
    assert not (checkpoints / "step-00000005").exists()
    config = folder / "short" / "config.yaml"
    recipe = yaml.safe_load(config.read_text())
    recipe["train"]["max_steps"] = 30
    config.write_text(yaml.safe_dump(recipe))
    (folder / "short" / "scores.json").unlink()
    said = []
    train(recipe_from(recipe), folder / "short", resume=True, test_sets=(), say=said.append)
    assert "resuming at step 20" in said
    assert apart(folder / "short", folder / "shard-2") < 1e-4


@pytest.mark.slow
def test_checkpoints_in_parts_are_averaged(runs, tmp_path):
    folder = runs[0] / "shard-2"
    steps = complete_steps(folder / "checkpoints")[-2:]
    assert average(folder, 2, tmp_path / "mean") == steps
    first, second = (read_snapshot(folder / "checkpoints", step).part("model/") for step in steps)
    for name, found in load_file(tmp_path / "mean" / "model.safetensors").items():
        assert torch.allclose(found, (first[name] + second[name]) / 2)


@pytest.mark.slow
def test_parts_that_were_changed_are_refused(runs):
    checkpoints = runs[0] / "shard-2" / "checkpoints"
    step = complete_steps(checkpoints)[-1]
    part = max((checkpoints / f"step-{step:08d}").glob("*.safetensors"))
    raw = bytearray(part.read_bytes())
    raw[-1] ^= 1
    part.write_bytes(raw)
    with pytest.raises(CheckpointError, match="its files are not those that were written"):
        read_snapshot(checkpoints, step)
    (checkpoints / f"step-{step:08d}" / "COMPLETE").unlink()
    assert step not in complete_steps(checkpoints)


def test_every_micro_batch_is_dealt_out_once():
    for k in range(1, 9):
        for n in range(1, 9):
            shares = [Ranks(rank, n).share(k) for rank in range(n)]
            taken = [(i, s.part) for s in shares for i in range(s.first, s.first + s.n)]
            assert len(taken) == len({*taken}) == max(k, n)
            assert {i for i, _ in taken} == {*range(k)}
            for share in shares:
                parts = [s.part for s in shares if s.first == share.first and s.parts > 1]
                assert len(parts) == (share.parts if share.parts > 1 else 0)


# ------------------------------------------------------------------ started by the program


@pytest.fixture
def recipe(settings, tmp_path):
    path = tmp_path / "recipe.yaml"
    path.write_text(yaml.safe_dump(changed(settings, max_steps=80, exact=True, save_every=5)))
    return path


@pytest.fixture
def launched(started, recipe):
    """Train in two processes -> the program that starts them."""

    def begin(out, *flags):
        return started("-m", "regard", "train", recipe, "--out", out, "--workers", 2, *flags)

    return begin


def wait_for_checkpoint(process, out):
    while not (out / "checkpoints").is_dir() or not list((out / "checkpoints").iterdir()):
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.05)


def workers_of(process):
    """The processes that were started by another, by rank."""
    found = {}
    for number in descendants(process.pid):
        given = Path(f"/proc/{number}/environ").read_text().split("\0")
        names = dict(one.partition("=")[::2] for one in given)
        found[int(names["RANK"])] = number
    return [found[rank] for rank in sorted(found)]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="finds processes in /proc")
def test_a_killed_process_is_started_again_and_nothing_is_lost(launched, recipe, tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    train(load_recipe(str(recipe)), whole)  # exact: one process learns what two learn
    process = launched(killed)
    wait_for_checkpoint(process, killed)
    os.kill(workers_of(process)[1], signal.SIGKILL)
    out, err = said(process)
    assert process.returncode == 0, err
    assert out.count("test set") == 1  # one of them prints
    assert "process 1 was killed by SIGKILL" in err
    assert "resuming at step" in err
    assert digest(whole) == digest(killed)
    assert not (killed / "training.lock").exists()


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="finds processes in /proc")
def test_a_signal_to_one_process_stops_all_at_the_same_step(launched, tmp_path):
    process = launched(tmp_path / "run", "--set", "max_steps=100000")
    wait_for_checkpoint(process, tmp_path / "run")
    os.kill(workers_of(process)[1], signal.SIGTERM)
    _, err = said(process)
    assert process.returncode == 0, err
    assert "stopped by SIGTERM after step" in err
    assert f"go on with: regard train --resume --out {tmp_path / 'run'} --workers 2\n" in err
    assert "Traceback" not in err


def test_a_folder_that_is_being_trained_is_refused(settings, tmp_path, capsys):
    recipe, out = tmp_path / "recipe.yaml", tmp_path / "run"
    recipe.write_text(yaml.safe_dump(settings))
    with locked(out, "another launch") as lock:
        lock.begin()
        for flags in ((), ("--resume",), ("--overwrite",)):
            assert main(["train", str(recipe), "--out", str(out), *flags]) == 2
            message = capsys.readouterr().err
            assert f"{out} is being trained by process {os.getpid()} on " in message
        lock.end()
    assert not out.exists()  # nothing was put into it


def test_a_lock_falls_with_its_owner(tmp_path):
    program = (
        "import os, sys; from pathlib import Path; from regard.checkpoints.lock import FolderLock\n"
        "lock = FolderLock(Path(sys.argv[1]) / 'training.lock', 'a launch'); lock.begin()\n"
        "os.kill(os.getpid(), 9)"
    )
    dead = subprocess.run([sys.executable, "-c", program, str(tmp_path)])
    assert dead.returncode == -signal.SIGKILL
    for _ in range(2):  # ends again before it goes on
        lock = FolderLock(tmp_path / NAME, "a launch")
        assert lock.is_started_again
        lock.release()
    with locked(tmp_path, "a launch") as lock:
        assert lock.is_started_again
    for launch in ("another", ""):
        subprocess.run([sys.executable, "-c", program, str(tmp_path)])
        with locked(tmp_path, launch) as lock:
            assert not lock.is_started_again


def test_a_training_that_its_launch_stops_and_starts_again_goes_on(settings, tmp_path, monkeypatch):
    """As torchrun does where a node joins."""
    recipe, out, reports = recipe_from(settings), tmp_path / "run", []

    def hear(line):
        reports.append(line)
        if len(reports) == 1:
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr("regard.runs.claims.launch_name", lambda: "a launch")
    stopped = train(recipe, out, observers=[hear])
    assert stopped.outcome.signal is signal.SIGTERM
    finished = train(recipe, out)
    assert finished.outcome.progress.step > stopped.outcome.progress.step
    assert finished.outcome.signal is None
    assert not (out / NAME).exists()


@pytest.mark.slow
def test_an_error_is_told_once_in_a_line(launched, tmp_path):
    bad = tmp_path / "bad.tsv"
    bad.write_text("a\tb\nno tab here\n")
    process = launched(tmp_path / "run", "--set", f"data.train={bad}")
    out, err = said(process)
    assert process.returncode == 2
    assert out == ""
    assert len(err.strip().splitlines()) == 1, err
    assert "bad.tsv:2: expected 2 columns" in err


def test_at_least_one_process_must_train(recipe, tmp_path, capsys):
    words = ["train", str(recipe), "--out", str(tmp_path / "run"), "--workers", "0"]
    assert main(words) == 2
    assert "--workers=0: at least one process must train" in capsys.readouterr().err
