"""Becoming a training that a snapshot describes, where the snapshot is damaged or somebody's."""

import pytest
import torch
from tiny import tiny_config

from regard.checkpoints.snapshots import Snapshot, SnapshotStore
from regard.core.errors import CheckpointError
from regard.data.examples import Example
from regard.data.pair_batches import padded_stream
from regard.models.transformer import Transformer
from regard.training.loop import Setup, Trainer
from regard.training.losses import Losses, Objective, cross_entropy
from regard.training.settings import TrainSettings


class Counted(Objective):
    """An objective that remembers how many batches it saw."""

    n_batches = 0

    def __call__(self, model, batch):
        self.n_batches += 1
        loss = cross_entropy(model(batch.source, batch.target_in), batch.target_out, pad=0)
        return Losses.of("cross_entropy", loss, batch.count)

    def state(self):
        return {"n_batches": self.n_batches}

    def restore(self, state):
        self.n_batches = state["n_batches"]


def trainer(folder):
    settings = TrainSettings(max_steps=4, warmup_steps=2, average=0.9, save_every=4)
    torch.manual_seed(1)
    setup = Setup(
        model=Transformer(tiny_config()),
        stream=padded_stream([Example([4, 5], [6, 7])] * 9, batch_tokens=6, seed=1),
        objective=Counted(),
        evaluate=lambda model: {"loss": 1.0},
        flops=lambda batch: 1.0,
        store=SnapshotStore(folder),
        keep_best=lambda weights: None,
        device=torch.device("cpu"),
    )
    return Trainer(setup, settings)


@pytest.fixture(scope="module")
def taken(tmp_path_factory):
    one = trainer(tmp_path_factory.mktemp("snapshots"))
    one.run()
    return one.setup.store.latest()


def facts_with(snapshot, path, value):
    """The facts with another one at a path, or without it where the value is ``...``."""
    facts = {key: dict(x) if isinstance(x, dict) else x for key, x in snapshot.facts.items()}
    *outer, key = path.split(".")
    inside = facts[outer[0]] if outer else facts
    inside.pop(key) if value is ... else inside.__setitem__(key, value)
    return facts


FACTS = [
    "progress", "progress.step", "progress.tokens", "progress.best", "progress.stale",
    "stream", "stream.epoch", "stream.position", "stream.data", "objective",
    "objective.n_batches", "averaged",
]  # fmt: skip
VALUES = [..., "x", [], {}, -1, 10**30, True, [[1]]]


@pytest.mark.parametrize("path", FACTS)
def test_facts_that_are_missing_or_of_another_kind_never_end_in_a_traceback(tmp_path, taken, path):
    fresh = trainer(tmp_path)
    refused = 0
    for value in VALUES:
        facts = facts_with(taken, path, value)
        try:
            fresh.restore(Snapshot(taken.step, taken.tensors, facts))
        except CheckpointError:
            refused += 1
    assert refused >= 4  # a count may be any number, and what has a default may be missing


@pytest.mark.parametrize("part", ["model/", "optimiser/", "average/"])
def test_tensors_that_are_missing_or_do_not_fit_never_end_in_a_traceback(tmp_path, taken, part):
    name = next(name for name in taken.tensors if name.startswith(part))
    old = taken.tensors[name]
    strange = [None, torch.zeros(old.shape, dtype=torch.complex64), torch.zeros(7, 1, 3)]
    strange += [torch.zeros(old.shape, dtype=torch.int32), torch.zeros(0)]
    for tensor in strange:
        tensors = {key: x for key, x in taken.tensors.items() if key != name}
        tensors |= {} if tensor is None else {name: tensor}
        with pytest.raises(CheckpointError):
            trainer(tmp_path).restore(Snapshot(taken.step, tensors, taken.facts))


def test_an_optimiser_never_gets_what_belongs_to_no_weight(tmp_path, taken):
    tensors = {**taken.tensors, "optimiser/exp_avg/nothing": torch.zeros(3)}
    with pytest.raises(CheckpointError, match="does not fit this training"):
        trainer(tmp_path).restore(Snapshot(taken.step, tensors, taken.facts))
