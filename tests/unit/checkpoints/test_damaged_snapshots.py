"""Snapshots that are not what was written, or were written by somebody else."""

import json
import random

import pytest
import torch
from safetensors.torch import load_file, save_file

from regard.checkpoints.digests import check_digest
from regard.checkpoints.run_folder import RunFolder, check_links, copy_all
from regard.checkpoints.snapshots import Snapshot, SnapshotStore, check_facts, load_snapshot
from regard.core.errors import CheckpointError


def snapshot(step):
    tensors = {"model/w": torch.full((9,), float(step)), "rng/cpu": torch.arange(5)}
    return Snapshot(step, tensors, {"stream": {"epoch": 3}})


def flip(path, place):
    data = bytearray(path.read_bytes())
    data[place] ^= 1 << (place % 8)
    path.write_bytes(data)


@pytest.fixture
def store(tmp_path):
    store = SnapshotStore(tmp_path, keep=3)
    for step in (5, 6, 7):
        store.save(snapshot(step), best_step=None)
    store.wait()
    return store


def test_a_flipped_bit_is_noticed_wherever_it_is(store):
    path = store.path(7)
    whole = path.read_bytes()
    rng = random.Random(0)
    for place in (*range(9), *(rng.randrange(len(whole)) for _ in range(60)), len(whole) - 1):
        path.write_bytes(whole)
        flip(path, place)
        try:
            found = load_snapshot(path)
        except CheckpointError:
            continue
        assert found.facts == snapshot(7).facts  # a bit of the word "sha256" itself
        assert all(torch.equal(found.tensors[name], x) for name, x in snapshot(7).tensors.items())


def test_the_newest_whole_one_is_taken_and_told(store):
    told = []
    assert store.latest(told.append).step == 7
    assert told == []
    for step in (7, 6):
        flip(store.path(step), -3)
    assert store.latest(told.append).step == 5
    assert len(told) == 2
    assert "step-00000007.safetensors cannot be read" in told[0]
    assert "going on from step 5" in told[1]


def test_where_none_is_whole_that_is_an_error_and_no_fresh_start(store):
    for step in (5, 6, 7):
        flip(store.path(step), -1)
    with pytest.raises(CheckpointError, match=r"step-00000007.*not those that were written"):
        store.latest()


def test_damaged_ones_are_left_out_of_what_is_whole(store):
    flip(store.path(6), -1)
    told = []
    assert store.whole_steps(told.append) == [5, 7]
    assert "left out" in told[0]
    assert "step-00000006" in told[0]


def test_a_snapshot_without_a_digest_is_read(store):
    """Older versions wrote none."""
    path = store.path(7)
    facts = json.dumps({"format": 2, "step": 7, "stream": {"epoch": 3}})
    save_file(load_file(path), path, metadata={"facts": facts})
    check_digest(path)
    assert load_snapshot(path).step == 7


@pytest.mark.parametrize(
    "facts",
    [
        "[]",
        "7",
        '{"step": null}',
        '{"step": "7"}',
        '{"step": -1}',
        '{"step": true}',
        "{}",
        "[" * 2000,
        '{"step": ' + "9" * 5000 + "}",
        '{"step": 7, "format": "new"}',
        "{",
    ],
)
def test_facts_that_are_none_are_refused(store, facts):
    path = store.path(7)
    save_file({"w": torch.ones(1)}, path, metadata={"facts": facts})
    with pytest.raises(CheckpointError, match="step-00000007"):
        load_snapshot(path)


def test_tensors_of_another_shape_or_kind_are_never_copied():
    wanted = {"w": torch.zeros(3), "n": torch.zeros((), dtype=torch.long)}
    fitting = {"w": torch.ones(3), "n": torch.tensor(4)}
    for name, wrong, told in (
        ("w", torch.ones(1), r"w is \(1,\), the model wants \(3,\)"),
        ("w", torch.ones(3, dtype=torch.long), r"w is of torch.int64, the model wants torch.float"),
        ("n", torch.tensor(0.5), "n is of torch.float32, the model wants torch.int64"),
    ):
        with pytest.raises(CheckpointError, match=told):
            copy_all(wanted, {**fitting, name: wrong}, "a file")
    assert not wanted["w"].any()
    copy_all(wanted, fitting, "a file")
    assert wanted["w"].all()


@pytest.mark.parametrize(
    ("found", "like"),
    [
        ({"epoch": "1"}, {"epoch": 0}),
        ({"epoch": 1.5}, {"epoch": 0}),
        ({"epoch": -1}, {"epoch": 0}),
        ({"epoch": True}, {"epoch": 0}),
        ({"best": "low"}, {"best": None}),
        ({"seconds": []}, {"seconds": 0.5}),
        ([], {"epoch": 0}),
        ({"inner": 3}, {"inner": {"epoch": 0}}),
        ({"data": 5}, {"data": "digest"}),
    ],
)
def test_facts_of_another_kind_are_refused(found, like):
    with pytest.raises(ValueError, match="is "):
        check_facts(found, like)


def test_a_number_may_be_nothing_yet():
    check_facts({"best": 0.5, "old": 3}, {"best": None, "new": 4})
    check_facts({"best": None, "seconds": 3}, {"best": 2.0, "seconds": 0.5})


@pytest.mark.parametrize(
    "name", ["metrics.jsonl", "checkpoints", "tensorboard/events", "config.yaml"]
)
def test_a_link_that_leads_out_of_the_run_folder_is_refused(tmp_path, name):
    run, outside = tmp_path / "run", tmp_path / "outside"
    link = run / name
    link.parent.mkdir(parents=True)
    link.symlink_to(outside)
    with pytest.raises(CheckpointError, match="outside the run folder.*delete it"):
        check_links(RunFolder(run))


def test_links_inside_a_run_and_to_a_whole_run_are_fine(tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    (run / "best.json").symlink_to("config.json")
    check_links(RunFolder(run))
    (tmp_path / "link").symlink_to(run)
    check_links(RunFolder(tmp_path / "link"))
    check_links(RunFolder(tmp_path / "nowhere"))
