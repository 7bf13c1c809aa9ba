import json
import threading

import pytest
import torch
from safetensors.torch import save

from regard.checkpoints import snapshots
from regard.checkpoints.snapshots import SNAPSHOT_FORMAT, Snapshot, SnapshotStore, load_snapshot
from regard.core.errors import CheckpointError
from regard.core.files import PARTIAL


def snapshot(step):
    return Snapshot(step, {"model/w": torch.full((2,), float(step))}, {"stream": {"epoch": 3}})


def saved(folder, step):
    store = SnapshotStore(folder)
    store.save(snapshot(step), best_step=None)
    store.wait()
    return store.path(step)


def test_a_snapshot_is_of_when_it_was_taken(tmp_path, monkeypatch):
    """Training goes on while it is written."""
    may_write, now = threading.Event(), snapshot(7)
    write = snapshots.write_digested
    monkeypatch.setattr(
        snapshots, "write_digested", lambda *what: may_write.wait(9) and write(*what)
    )
    store = SnapshotStore(tmp_path)
    store.save(now, best_step=None)
    assert store.latest() is None
    now.tensors["model/w"].add_(1)
    now.facts["stream"]["epoch"] = 4
    may_write.set()
    store.wait()
    again = store.latest()
    assert again.facts == {"stream": {"epoch": 3}}
    assert torch.equal(again.part("model/")["w"], torch.tensor([7.0, 7.0]))


def test_what_goes_wrong_in_writing_is_told_by_the_next_call(tmp_path):
    (tmp_path / "file").write_text("")
    store = SnapshotStore(tmp_path / "file")
    store.save(snapshot(7), best_step=None)
    with pytest.raises(CheckpointError, match="file"):
        store.save(snapshot(8), best_step=None)


def test_what_goes_in_comes_out(tmp_path):
    store = SnapshotStore(tmp_path)
    store.save(snapshot(7), best_step=None)
    store.wait()
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
    saved(tmp_path, 4)
    assert not leftover.exists()


@pytest.mark.parametrize("damage", [lambda raw: raw[:-3], lambda raw: b"junk", lambda raw: b""])
def test_a_damaged_snapshot_is_named_with_a_remedy(tmp_path, damage):
    path = saved(tmp_path, 7)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(CheckpointError, match=r"step-00000007.*delete it to resume"):
        load_snapshot(path)


def test_a_snapshot_of_the_first_format_is_read(tmp_path):
    """It did not say its format, and called what every optimiser keeps after Adam."""
    tensors = {"model/w": torch.ones(2), "adam/exp_avg/w": torch.zeros(2)}
    path = tmp_path / "step-00000007.safetensors"
    path.write_bytes(save(tensors, metadata={"facts": json.dumps({"step": 7})}))
    again = load_snapshot(path)
    assert again.step == 7
    assert {*again.tensors} == {"model/w", "optimiser/exp_avg/w"}
    assert again.facts == {}


def test_a_snapshot_of_a_newer_format_is_refused(tmp_path):
    path = tmp_path / "step-00000007.safetensors"
    facts = json.dumps({"format": SNAPSHOT_FORMAT + 1, "step": 7})
    path.write_bytes(save({"w": torch.ones(1)}, metadata={"facts": facts}))
    with pytest.raises(CheckpointError, match=r"step-00000007.* has format 3, .*; update regard$"):
        SnapshotStore(tmp_path).latest()
