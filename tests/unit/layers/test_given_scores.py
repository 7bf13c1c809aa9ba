"""Scores that somebody brings: any function or module of queries and keys, alone and in heads."""

import pytest
import torch
from torch import nn

import regard
from regard.core.errors import ConfigError, ShapeError
from regard.kernels import sdpa
from regard.layers.score import GivenScore
from regard.layers.settings import AttentionSettings

B, T, D, H = 2, 5, 12, 3


def dot(q, k):
    return q @ k.mT


class Weighed(nn.Module):
    """An inner product whose dimensions count as much as is learned, with dropout."""

    def __init__(self, width, dropout=0.0):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width, dtype=torch.float64))
        self.dropout = nn.Dropout(dropout)

    def forward(self, q, k):
        return self.dropout(q * self.weight) @ k.mT


def layer(score, seed=4):
    torch.manual_seed(seed)
    return regard.MultiHeadAttention(D, H, score=score).double()


@pytest.fixture
def x(rng):
    return torch.randn(B, T, D, generator=rng, dtype=torch.float64)


def learned(attention, x, mask):
    """What comes out, and the gradients of all projections."""
    values = attention(x, mask=mask, causal=True)
    values.square().sum().backward()
    return values, [one.weight.grad for one in (attention.to_q, attention.to_k, attention.to_v)]


@pytest.mark.parametrize("given", [dot, Weighed(D // H)], ids=["function", "module"])
def test_a_given_score_learns_as_the_built_in_one_does(rng, x, given):
    mask = torch.rand(B, 1, T, T, generator=rng) < 0.7  # some rows see nothing
    torch.testing.assert_close(learned(layer(given), x, mask), learned(layer("dot"), x, mask))


def test_the_parameters_of_a_module_are_the_layers(x):
    attention = layer(Weighed(D // H))
    attention(x).square().sum().backward()
    assert attention.get_parameter("score.function.weight").grad.abs().sum() > 0
    assert "score.function.weight" in attention.state_dict()


def test_a_score_of_ours_may_be_given_too(x):
    mine = regard.Score("additive", d_query=4, d_key=4, n_heads=H).double()
    assert layer(mine).score is mine
    assert layer(mine)(x).shape == x.shape


@pytest.mark.parametrize("given", [dot, Weighed(D // H, dropout=0.5)], ids=["function", "dropout"])
def test_whoever_watches_sees_the_weights_that_were_used(x, given):
    attention = layer(given)
    kept = []
    attention.to_out.register_forward_pre_hook(lambda _module, inputs: kept.append(inputs[0]))
    with regard.watch(attention) as views:
        attention(x)
    view = views["", 0]
    assert not view.weights().requires_grad
    again = (view.weights() @ view.calls[0].v).transpose(1, 2).flatten(2)
    torch.testing.assert_close(again, kept[0])


def by_distance(q, k):
    """(T, S): the same for every text and head, whatever is written in it."""
    places = torch.arange(max(q.shape[-2], k.shape[-2]))
    return -(places[: q.shape[-2], None] - places[: k.shape[-2]]).abs()


@pytest.mark.parametrize("need_weights", [False, True])
def test_scores_broadcast_over_texts_and_heads(rng, need_weights):
    q, k, v = (torch.randn(B, H, T, 4, generator=rng) for _ in range(3))
    found = regard.attention(q, k, v, score=by_distance, need_weights=True)
    assert found.weights.shape == (B, H, T, T)
    torch.testing.assert_close(
        found.weights[1, 2], by_distance(q, k).to(torch.float32).softmax(dim=-1)
    )
    values = regard.attention(q, k, v, score=by_distance, need_weights=need_weights)
    torch.testing.assert_close(values[0] if need_weights else values, found.values)


def test_a_score_that_asks_for_places_is_given_all_queries_of_a_long_text(rng, monkeypatch):
    q, k, v = (torch.randn(1, 1, 40, 4, generator=rng) for _ in range(3))
    wanted = regard.attention(q, k, v, score=by_distance, causal=True)
    monkeypatch.setattr(sdpa, "ON_CPU", 8)  # others would be asked some queries at a time
    torch.testing.assert_close(regard.attention(q, k, v, score=by_distance, causal=True), wanted)


@pytest.mark.parametrize(
    ("wrong", "found"),
    [
        (lambda q, k: q, r"\(2, 3, 5, 4\)"),
        (lambda q, k: dot(q, k)[:, :2], r"\(2, 2, 5, 5\)"),
        (lambda q, k: dot(q, k)[None], r"\(1, 2, 3, 5, 5\)"),
        (lambda q, k: 1.0, "float"),
    ],
    ids=["widths", "heads", "axes", "number"],
)
def test_wrong_shapes_are_told_in_one_line(x, wrong, found):
    with pytest.raises(ShapeError, match=rf"to \(2, 3, 5, 5\): .* found {found}$") as told:
        layer(wrong)(x)
    assert "\n" not in str(told.value)


def test_it_is_given_by_itself_and_printed_by_its_name():
    assert repr(GivenScore(dot)) == "GivenScore(dot)"
    with pytest.raises(ConfigError, match="score: give settings as one object or one by one"):
        regard.MultiHeadAttention(D, H, AttentionSettings(), score=dot)
