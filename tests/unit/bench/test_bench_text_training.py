"""Models of one text beside their peers, at sizes that a CPU trains in a moment."""

from dataclasses import replace
from importlib.util import find_spec

import pytest
import torch

from regard.bench import text_training
from regard.bench.contest import BenchRequest, Plan, Workload, compete
from regard.bench.text_training import (
    SHAPES,
    PlainGPT,
    WithLoss,
    contenders,
    text_batches,
    text_train_bench,
)
from regard.bench.updates import learned
from regard.core.errors import ConfigError
from regard.training.settings import TrainSettings

CPU = torch.device("cpu")
SMALL = {
    "n_vocab": 40,
    "d_model": 24,
    "n_layers": 2,
    "n_heads": 3,
    "dropout": 0.0,
    "context": 20,
    "n_rows": 3,
}
pytestmark = pytest.mark.filterwarnings("ignore")  # what peers warn of is their affair


def small(name):
    """What is learned in a shape, with the peers that are installed, the shape and its batches."""
    peers = tuple(peer for peer in SHAPES[name].peers if find_spec(peer.package))
    bench = replace(SHAPES[name], shape=replace(SHAPES[name].shape, **SMALL), peers=peers)
    return bench, bench.shape, text_batches(bench, bench.shape)


@pytest.mark.parametrize("name", SHAPES)
def test_all_that_are_installed_train_and_are_told_in_tokens_a_second(name):
    bench, shape, _ = small(name)
    found = list(contenders(bench, shape, CPU, "fp32"))
    rows = compete(Workload(what=name, unit="tokens/s"), found, Plan(device=CPU, rounds=1))
    assert not [row.error for row in rows if row.error]
    assert len(rows) == 2 + len(bench.peers)
    assert all(row.value > 0 for row in rows)


@pytest.mark.parametrize("name", SHAPES)
def test_a_peer_has_as_many_parameters_as_we_have_with_learned_positions(name):
    bench, shape, _ = small(name)
    ours = learned(bench.ours("learned", shape)[0])
    for peer in bench.peers:
        assert learned(peer.make(shape)) == pytest.approx(ours, rel=0.03)


@pytest.mark.parametrize("name", ["gpt2-small", "bert-base"])
def test_our_loss_is_what_a_peer_would_compute_of_our_logits(name):
    bench, shape, batches = small(name)
    model = bench.ours("learned", shape)[0]
    settings = TrainSettings(max_steps=1, label_smoothing=0.0)
    losses = bench.objective(settings, False)(model, batches[0])
    mean = losses.total / batches[0].count
    torch.testing.assert_close(mean, WithLoss(model)(*bench.inputs(batches[0])))


def test_the_plain_stack_sees_no_future_and_all_of_the_past():
    _, shape, _ = small("gpt2-small")
    torch.manual_seed(0)
    model = PlainGPT(shape).eval()
    ids = torch.randint(0, 40, (1, 20))
    other = ids.clone()
    other[0, 10] = (other[0, 10] + 1) % 40
    changed = (model(ids) - model(other)).abs().amax(dim=-1)[0] > 1e-6
    assert changed.tolist() == [False] * 10 + [True] * 10


def test_the_bench_runs_from_end_to_end_with_sizes_that_are_asked_for(monkeypatch):
    tiny = replace(SHAPES["gpt2-small"], shape=replace(SHAPES["gpt2-small"].shape, **SMALL))
    monkeypatch.setitem(SHAPES._things, "gpt2-small", tiny)
    monkeypatch.setattr(text_training, "ON_CPU", {})
    asked = BenchRequest(device="cpu", precision="fp32", rounds=1, only=("regard",))
    bench = text_train_bench(asked, "gpt2-small", vocab=30, batch_tokens=20)
    assert [row.how for row in bench.rows] == ["learned positions", "rotary positions"]
    assert bench.facts["shape"]["n_vocab"] == 30
    assert bench.facts["shape"]["n_rows"] == 1
    assert bench.facts["tokens"] == 4 * 20


def test_what_a_shape_cannot_be_is_told():
    with pytest.raises(ConfigError, match="unknown shape 'gpt2-smal' .did you mean 'gpt2-small'"):
        text_train_bench(BenchRequest(device="cpu"), "gpt2-smal")
    with pytest.raises(ConfigError, match="--long goes without --shape"):
        text_train_bench(BenchRequest(device="cpu", long=True), "gpt2-small")
