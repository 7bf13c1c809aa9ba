"""``regard average``: the mean of a run's last checkpoints as a run."""

import shutil

import pytest
import torch
from safetensors.torch import load_file

import regard
from regard.checkpoints.snapshots import Snapshot, SnapshotStore, load_snapshot
from regard.runs.average import mean_of
from regard.runs.train import train
from regard.tasks.recipe import recipe_from


@pytest.fixture(scope="module")
def kept(settings, tmp_path_factory):
    """A run that has kept the checkpoints of steps 3, 6, 9 and 12."""
    more = {"max_steps": 12, "save_every": 3, "eval_every": 12, "keep": 4, "average": 0.9}
    out = tmp_path_factory.mktemp("average") / "kept"
    train(recipe_from({**settings, "train": {**settings["train"], **more}}), out, test_sets=())
    return out


def steps(folder):
    return SnapshotStore(folder / "checkpoints").steps()


def test_every_weight_is_the_mean_of_the_last_checkpoints(run, kept, tmp_path):
    out = tmp_path / "mean"
    code, said, _ = run("average", kept, "--last", 3, "--out", out)
    assert (code, said) == (0, f"{out}: the mean of steps 6, 9, 12\n")
    found = load_file(out / "model.safetensors")
    store = SnapshotStore(kept / "checkpoints")
    parts = [load_snapshot(store.path(step)).part("model/") for step in (6, 9, 12)]
    assert found.keys() == parts[0].keys()
    for name, tensor in found.items():
        wanted = (parts[0][name].double() + parts[1][name] + parts[2][name]) / 3
        torch.testing.assert_close(tensor, wanted.float(), rtol=0, atol=0)
        assert name != "encoder.embedding.tokens.weight" or not torch.equal(tensor, parts[2][name])


def test_the_mean_is_a_run_like_any_other(run, kept, tmp_path):
    out = tmp_path / "mean"
    run("average", kept, "--last", 2, "--out", out)
    assert isinstance(regard.load(out).translate("a b"), str)
    assert regard.load([out, kept]).score("a b", "b a") < 0
    code, said, _ = run("train", out / "config.yaml", "--out", out, "--resume")
    assert (code, "finished" in said) == (0, True)  # nothing is trained over it
    assert run("evaluate", out, "--split", "valid")[0] == 0


def test_a_damaged_checkpoint_is_left_out_and_told(run, kept, tmp_path):
    shutil.copytree(kept, tmp_path / "mine")
    path = SnapshotStore(tmp_path / "mine" / "checkpoints").path(12)
    path.write_bytes(path.read_bytes()[:-1] + b"\x01")
    code, said, told = run("average", tmp_path / "mine", "--last", 2)
    assert (code, said) == (0, f"{tmp_path / 'mine-average'}: the mean of steps 6, 9\n")
    assert "left out" in told
    assert "step-00000012" in told


def test_by_default_it_lies_beside_the_run(run, kept, tmp_path):
    shutil.copytree(kept, tmp_path / "mine")
    code, said, _ = run("average", tmp_path / "mine", "--last", 1)
    assert (code, said) == (0, f"{tmp_path / 'mine-average'}: the mean of steps 12\n")
    last = load_snapshot(SnapshotStore(kept / "checkpoints").path(12)).part("model/")
    found = load_file(tmp_path / "mine-average" / "model.safetensors")
    assert all(torch.equal(found[name], tensor) for name, tensor in last.items())


def test_as_many_checkpoints_are_kept_as_were_asked_for(kept, run_path):
    assert steps(kept) == [3, 6, 9, 12]
    assert len(steps(run_path)) <= 3  # the last two, and the best


def test_counts_are_the_last_ones_and_numbers_are_averaged(tmp_path):
    def snapshot(n):
        tensors = {"model/w": torch.full((2,), float(n)), "model/n": torch.tensor(10 * n)}
        return tmp_path / str(n), Snapshot(n, tensors, {})

    found = mean_of(map(snapshot, (1, 2, 6)))
    assert found["w"].tolist() == [3.0, 3.0]
    assert (found["n"].item(), found["n"].dtype) == (60, torch.int64)


def test_what_cannot_be_averaged_is_told_in_a_line(refused, run, kept, tmp_path):
    out = tmp_path / "mean"
    assert refused("average", kept, "--last", 9, "--out", out) == (
        f"regard: {kept} has 4 checkpoints (steps 3, 6, 9, 12), and 9 are to be averaged; a "
        "training keeps more with train.keep=9, or take --last 4\n"
    )
    assert "at least 1 checkpoint" in refused("average", kept, "--last", 0, "--out", out)
    assert "exists already" in refused("average", kept, "--last", 2, "--out", kept)
    assert "there is no run folder" in refused("average", tmp_path / "no", "--out", out)
    run("average", kept, "--last", 2, "--out", out)
    assert refused("average", out, "--last", 2, "--out", tmp_path / "more") == (
        f"regard: {out} was not trained here (it was imported, or is a mean already): it has no "
        "checkpoints to average\n"
    )


def test_checkpoints_of_different_models_are_refused(refused, kept, tmp_path):
    mixed = tmp_path / "mixed"
    shutil.copytree(kept, mixed)
    path = SnapshotStore(mixed / "checkpoints").path(9)
    snapshot = load_snapshot(path)
    tensors = {name: torch.zeros(3, 5) for name in snapshot.tensors}
    store = SnapshotStore(mixed / "checkpoints", keep=9)
    store.save(Snapshot(9, tensors, snapshot.facts), best_step=None)
    store.wait()
    line = refused("average", mixed, "--last", 3, "--out", tmp_path / "mean")
    assert "step-00000006.safetensors and " in line
    assert "are of different models: " in line
    assert not (tmp_path / "mean").exists()
