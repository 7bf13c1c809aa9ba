"""Models of texts and of pictures beside their peers, at sizes that a CPU trains in a moment."""

from dataclasses import asdict, replace
from importlib.util import find_spec

import pytest
import torch
from torch import nn

from regard.bench.contest import BenchRequest, Plan, Workload, compete
from regard.bench.picture_training import PICTURES, FromBytes
from regard.bench.shape_training import WithLoss, contenders
from regard.bench.shapes import SHAPES, shape_train_bench
from regard.bench.text_training import TEXTS, PlainGPT
from regard.bench.updates import learned
from regard.core.errors import ConfigError
from regard.training.settings import TrainSettings

CPU = torch.device("cpu")
SMALL_TEXT = {
    "n_vocab": 40,
    "d_model": 24,
    "n_layers": 2,
    "n_heads": 3,
    "dropout": 0.0,
    "context": 20,
    "n_rows": 3,
}
SMALL_PICTURE = {
    "image_size": 8,
    "patch_size": 4,
    "d_model": 24,
    "n_layers": 2,
    "n_heads": 3,
    "n_labels": 5,
    "n_pictures": 3,
}
pytestmark = pytest.mark.filterwarnings("ignore")  # what peers warn of is their affair


def is_here(peer):
    """timm cannot be loaded without torchvision, which it asks for when it is installed."""
    return find_spec(peer.package) and (peer.package != "timm" or find_spec("torchvision"))


def small(name):
    """What is learned in a shape, with the peers that are installed, the shape and its batches."""
    peers = tuple(peer for peer in SHAPES[name].peers if is_here(peer))
    shape = replace(SHAPES[name].shape, **(SMALL_TEXT if name in TEXTS else SMALL_PICTURE))
    bench = replace(SHAPES[name], shape=shape, on_cpu={}, peers=peers)
    return bench, shape, bench.batches(shape)


def our_model(bench):
    first, *_ = bench.ours.values()
    return first(bench.shape)[0]


@pytest.mark.parametrize("name", SHAPES)
def test_all_that_are_installed_train_and_are_told_in_units_a_second(name):
    bench, shape, _ = small(name)
    found = list(contenders(bench, shape, CPU, "fp32"))
    rows = compete(Workload(what=name, unit="units/s"), found, Plan(device=CPU, rounds=1))
    assert not [row.error for row in rows if row.error]
    assert len(rows) == len(bench.ours) + len(bench.peers)
    assert all(row.value > 0 for row in rows)


@pytest.mark.parametrize("name", SHAPES)
def test_a_round_is_as_many_units_as_its_batches_hold(name):
    _, shape, batches = small(name)
    read = {"tokens": lambda one: shape.n_rows * shape.context, "images": lambda one: one.count}
    assert shape.n_units == sum(read[SHAPES[name].unit](batch) for batch in batches)


@pytest.mark.parametrize("name", SHAPES)
def test_a_peer_has_as_many_parameters_as_we_have_with_learned_positions(name):
    bench, shape, _ = small(name)
    ours = learned(our_model(bench))
    for peer in bench.peers:
        exact = name in PICTURES
        assert learned(peer.make(shape)) == pytest.approx(ours, rel=0 if exact else 0.03)


@pytest.mark.parametrize("name", SHAPES)
def test_our_loss_is_what_a_peer_would_compute_of_our_logits(name):
    bench, _, batches = small(name)
    torch.manual_seed(0)
    model = our_model(bench).eval()
    for weight in model.parameters():  # so that a fresh model does not say every label alike
        nn.init.normal_(weight, std=0.2)
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


def test_a_peer_is_given_the_numbers_that_we_make_of_bytes():
    bench, _, (batch, *_) = small("vit-cifar")
    numbers = our_model(bench).encoder.pixel_norm(batch.pixels)
    torch.testing.assert_close(FromBytes(nn.Identity())(batch.pixels), numbers)
    assert numbers.min() < -0.9
    assert numbers.max() > 0.9


@pytest.mark.parametrize("name", ["gpt2-small", "vit-s16"])
def test_the_bench_runs_from_end_to_end(monkeypatch, name):
    bench, shape, _ = small(name)
    monkeypatch.setitem(SHAPES._things, name, bench)
    asked = BenchRequest(device="cpu", precision="fp32", rounds=1, only=("regard",))
    found = shape_train_bench(asked, name)
    assert [row.how for row in found.rows] == [*bench.ours]
    assert {row.unit for row in found.rows} == {f"{bench.unit}/s"}
    assert found.facts["shape"] == asdict(shape)
    assert found.facts[bench.unit] == shape.n_units


def test_a_text_has_other_sizes_where_they_are_asked_for(monkeypatch):
    bench, _, _ = small("gpt2-small")
    monkeypatch.setitem(SHAPES._things, "gpt2-small", bench)
    asked = BenchRequest(device="cpu", precision="fp32", rounds=1, only=("regard",))
    found = shape_train_bench(asked, "gpt2-small", vocab=30, batch_tokens=20)
    assert found.facts["shape"]["n_vocab"] == 30
    assert found.facts["shape"]["n_rows"] == 1
    assert found.facts["tokens"] == 4 * 20


def test_what_a_shape_cannot_be_is_told():
    with pytest.raises(ConfigError, match="unknown shape 'gpt2-smal' .did you mean 'gpt2-small'"):
        shape_train_bench(BenchRequest(device="cpu"), "gpt2-smal")
    with pytest.raises(ConfigError, match="--long goes without --shape"):
        shape_train_bench(BenchRequest(device="cpu", long=True), "gpt2-small")
    with pytest.raises(ConfigError, match="--vocab and --batch-tokens are for models of texts"):
        shape_train_bench(BenchRequest(device="cpu"), "vit-s16", vocab=300)
