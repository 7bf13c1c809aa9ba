import copy

import numpy as np
import pytest
import torch

from regard.bench import contest, training
from regard.bench.contest import BenchRequest, Plan
from regard.bench.measures import limit, short
from regard.bench.training import padded_training, random_examples, sentences, training_flops
from regard.bench.training_peers import PEERS, plain_gru
from regard.bench.updates import learned, shape
from regard.core.errors import ConfigError
from regard.models.presets import build, n_parameters

CPU = torch.device("cpu")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # what peers warn of is their affair
]


@pytest.fixture(scope="module")
def text():
    return sentences(50, batch_tokens=64, n_batches=3)


@pytest.fixture
def config():
    return shape("tiny", 50).model_copy(update={"d_model": 16, "d_ff": 24, "n_heads": 2})


def test_lengths_are_log_normal_around_24_and_sides_go_together():
    examples = random_examples(4000, 1000)
    source = np.array([len(one.source) for one in examples])
    target = np.array([len(one.target) for one in examples])
    assert abs(source.mean() - 24) < 1
    assert abs(np.log(source).std() - 0.5) < 0.05
    assert np.corrcoef(source, target)[0, 1] > 0.9
    assert examples[:5] == random_examples(4000, 1000)[:5]


def test_a_length_that_is_asked_for_is_everybody_s():
    text = sentences(50, batch_tokens=64, n_batches=2, length=32)
    assert {b.target_out.shape[1] for b in text.batches} == {32}
    assert text.padding == 0


def test_padded_batches_hold_exactly_the_sentences_that_others_batch_their_own_way(text):
    rows = [ids for batch in text.batches for ids in batch.target.tolist()]
    real = sorted([i for i in ids if i > 3] for ids in rows)
    assert real == sorted(list(one.target) for one in text.examples)
    assert text.n_target_tokens == sum(len(one.target) + 1 for one in text.examples)


def test_peers_get_batches_of_like_length():
    text = sentences(50, batch_tokens=1024, n_batches=4)
    assert len(text.batches) == 4
    assert text.padding < 0.02
    widths = [batch.target.shape[1] for batch in text.batches]
    assert widths[0] < 24 < widths[-1]  # short ones and long ones


@pytest.fixture(params=PEERS, ids=lambda peer: peer.name)
def peer(request, config):
    pytest.importorskip(request.param.package)
    torch.manual_seed(0)
    return request.param.make(config).eval()


@pytest.mark.parametrize("one", PEERS, ids=lambda peer: peer.name)
def test_a_peer_has_our_shape_and_one_matrix_for_all_embeddings(one, config):
    pytest.importorskip(one.package)
    wide = config.model_copy(update={"n_source_vocab": 500, "n_target_vocab": 500})
    assert learned(one.make(wide)) == pytest.approx(n_parameters(build(wide)), rel=0.05)


def test_a_peer_does_not_see_the_future(peer, source, target):
    other = target.clone()
    other[:, -1] = (other[:, -1] + 1) % 9 + 4
    before, after = peer(source, target), peer(source, other)
    assert before.shape == (*target.shape, 50)
    torch.testing.assert_close(before[:, :-1], after[:, :-1])
    assert not torch.allclose(before[:, -1], after[:, -1])


def test_a_peer_does_not_see_padding_but_sees_the_source(peer, source, target):
    alone = peer(source[1:2, :4], target[1:2])
    torch.testing.assert_close(peer(source, target)[1:2], alone, rtol=1e-4, atol=1e-5)
    other = source.clone()
    other[:, 0] = (other[:, 0] + 1) % 9 + 4
    assert not torch.allclose(peer(source, target), peer(other, target))


def test_our_update_is_the_one_that_every_peer_makes(config, text, monkeypatch):
    still = config.model_copy(update={"dropout": 0.0, "bias": False})
    mine = build(still)
    theirs = copy.deepcopy(mine)
    monkeypatch.setattr(training, "build", lambda _config: mine)
    training.our_training(still, text, device=CPU, precision="fp32").run()
    work = padded_training(theirs, text.batches, CPU, "fp32")
    assert work.run() == text.n_target_tokens
    for ours_, theirs_ in zip(mine.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(ours_, theirs_, rtol=1e-3, atol=2e-5)


def test_the_weights_move(config, text):
    model = build(config)
    before = copy.deepcopy(model.state_dict())
    padded_training(model, text.batches, CPU, "bf16").run()
    assert not torch.equal(
        before["decoder.embedding.tokens.weight"], model.decoder.embedding.tokens.weight
    )


def test_flops_are_of_the_sentences_and_not_of_their_padding(config):
    few = sentences(50, batch_tokens=64, n_batches=2, length=16)
    once = training_flops(config, few)
    # 6 FLOPs a weight and token, both sides alike, and the attention above it
    weights = n_parameters(build(config)) - 50 * 16
    least = 6 * (weights + 50 * 16) * 0.9
    assert least < once < 1.6 * least


def test_a_plain_gru_is_as_large_as_asked_for():
    assert n_parameters(plain_gru(1000, 200_000)) == pytest.approx(200_000, rel=0.06)


def test_systems_are_rows_with_what_limits_them(monkeypatch):
    text = sentences(50, batch_tokens=32, n_batches=1)
    monkeypatch.setattr(contest, "LEAST_SECONDS", 0.001)
    few = {name: training.SYSTEMS[name] for name in ("bahdanau2015", "transformer, score additive")}
    monkeypatch.setattr(training, "SYSTEMS", few)
    plan = Plan(device=CPU, rounds=1, matrix_rates={"fp32": 1e9})
    rows = training.systems_rows(text, plan, size="tiny", vocab=50, precision="fp32")
    assert [row.label for row in rows] == [
        *(f"regard ({name})" for name in few),
        "torch.nn.GRU (no attention)",
    ]
    assert [row.error for row in rows] == [None] * 3
    assert all("%" in row.limit and row.share for row in rows[:2])
    assert rows[2].parameters == pytest.approx(rows[0].parameters, rel=0.05)


def test_the_limit_names_what_takes_the_time():
    a = torch.randn(300, 300)
    assert limit(lambda: [a @ a for _ in range(20)], CPU).startswith("mm ")
    assert short("void at::native::kernel<4, float>(int)") == "kernel"


def test_only_those_asked_for_take_part_and_a_wrong_name_is_told():
    packages = {"a": "torch", "b": "numpy", "c": "no_such_package"}
    assert BenchRequest().chosen(packages) == {"regard", "a", "b"}
    assert BenchRequest(only=("b",)).chosen(packages) == {"b"}
    with pytest.raises(ConfigError, match="there is no contender 'regrad' .did you mean 'regard'"):
        BenchRequest(only=("regrad",)).chosen(packages)
    with pytest.raises(ConfigError, match="c is not installed; get it by pip install c"):
        BenchRequest(only=("c",)).chosen(packages)
