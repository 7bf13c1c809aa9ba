import pytest
import torch

from regard.checkpoints.snapshots import Snapshot, SnapshotStore, load_snapshot
from regard.core.errors import CheckpointError
from regard.core.files import PARTIAL


def snapshot(step):
    return Snapshot(step, {"model/w": torch.full((2,), float(step))}, {"stream": {"epoch": 3}})


def test_what_goes_in_comes_out(tmp_path):
    store = SnapshotStore(tmp_path)
    store.save(snapshot(7), best_step=None)
    again = store.latest()
    assert (again.step, again.facts) == (7, {"stream": {"epoch": 3}})
    assert torch.equal(again.part("model/")["w"], torch.tensor([7.0, 7.0]))


def test_without_a_complete_snapshot_there_is_none(tmp_path):
    assert SnapshotStore(tmp_path / "nowhere").latest() is None
    (tmp_path / f"step-00000003.safetensors{PARTIAL}").write_bytes(b"half")
    assert SnapshotStore(tmp_path).latest() is None


def test_leftovers_of_a_killed_run_are_tidied_away(tmp_path):
    leftover = tmp_path / f"step-00000003.safetensors{PARTIAL}"
    leftover.write_bytes(b"half")
    SnapshotStore(tmp_path).save(snapshot(4), best_step=None)
    assert not leftover.exists()


@pytest.mark.parametrize("damage", [lambda raw: raw[:-3], lambda raw: b"junk", lambda raw: b""])
def test_a_damaged_snapshot_is_named_with_a_remedy(tmp_path, damage):
    path = SnapshotStore(tmp_path).save(snapshot(7), best_step=None)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(CheckpointError, match=r"step-00000007.*delete it to resume"):
        load_snapshot(path)
