"""``regard train --resume`` in a folder whose files were damaged or put there by somebody."""

import shutil

import pytest
import yaml
from safetensors.torch import load_file

from regard.checkpoints.snapshots import SnapshotStore


@pytest.fixture
def begun(run_path, tmp_path, settings):
    """A recipe, and its run before it was scored."""
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(settings))
    out = shutil.copytree(run_path, tmp_path / "run")
    (out / "scores.json").unlink()
    return tmp_path / "mine.yaml", out


def test_a_flipped_bit_is_told_and_the_step_before_gone_on_from(run, begun, run_path):
    recipe, out = begun
    store = SnapshotStore(out / "checkpoints")
    path = store.path(store.steps()[-1])
    data = bytearray(path.read_bytes())
    data[-1000] ^= 4
    path.write_bytes(data)
    code, _, told = run("train", recipe, "--out", out, "--resume")
    assert code == 0
    assert "its bytes are not those that were written" in told
    assert f"resuming at step {store.steps()[-2]}" in told
    ours, theirs = (load_file(one / "model.safetensors") for one in (out, run_path))
    assert all(ours[name].equal(theirs[name]) for name in theirs)  # as if nothing had been


@pytest.mark.parametrize(
    "name", ["metrics.jsonl", "checkpoints", "tensorboard", "model.safetensors"]
)
@pytest.mark.parametrize("how", ["--resume", "--overwrite"])
def test_nothing_is_written_through_a_link_that_leads_out(run, begun, tmp_path, name, how):
    recipe, out = begun
    outside = tmp_path / "outside"
    (out / name).rename(outside)
    (out / name).symlink_to(outside)
    before = {one: one.stat().st_mtime_ns for one in (outside, *outside.rglob("*"))}
    code, _, told = run("train", recipe, "--out", out, how)
    assert code == 2
    assert "is a link to" in told
    assert {one: one.stat().st_mtime_ns for one in (outside, *outside.rglob("*"))} == before
