"""Attention against loops, and what it refuses."""

import math

import pytest
import torch
from oracles import PAIR_SCORES, attend_by_loops, pair_score_of, qkv

import regard
from regard.core.errors import ConfigError, ShapeError
from regard.functional.positions import Alibi
from regard.functional.scores import SCORES, ScoreKind
from regard.kernels.call import reference_only
from regard.layers.score import PreparedScore

EVERY_SCORE = [(name, {}) for name in SCORES] + [
    ("content", {"beta": "learned"}),
    ("content", {"beta": "emitted"}),
    ("location", {"max_len": 3}),
]


def made(name, options, *, Dq=6, Dk=6, n_heads=3):
    score = regard.Score(name, d_query=Dq, d_key=Dk, d_hidden=4, n_heads=n_heads, **options)
    with torch.no_grad():
        for parameter in score.parameters():
            parameter.copy_(torch.randn_like(parameter))
    return score.double()


def widths(name):
    return {"Dq": 6, "Dk": 6} if SCORES[name].equal_widths else {"Dq": 6, "Dk": 5}


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("n_heads", [None, 3])
@pytest.mark.parametrize(("name", "options"), EVERY_SCORE)
def test_every_score_matches_loops(rng, name, options, n_heads, masked):
    q, k, v = qkv(rng, **widths(name))
    score = made(name, options, **widths(name), n_heads=n_heads)
    mask = torch.rand(2, 3, 4, 5, generator=rng) < 0.5 if masked else None
    values, weights = attend_by_loops(q, k, v, mask, pair_score_of(score, q, k))
    got = regard.attention(q, k, v, score=score, mask=mask, need_weights=True)
    torch.testing.assert_close(got.weights, weights)
    torch.testing.assert_close(got.values, values)


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize(("name", "options"), EVERY_SCORE)
def test_prepared_keys_give_the_same(rng, name, options, need_weights):
    q, k, v = qkv(rng, **widths(name))
    score = made(name, options, **widths(name))
    plain = regard.attention(q, k, v, score=score, need_weights=need_weights)
    prepared = regard.attention(
        q, score.prepare(k), v, score=PreparedScore(score), need_weights=need_weights
    )
    torch.testing.assert_close(prepared, plain)


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("n", [5, 1100])  # whole, and some queries at a time
def test_any_function_of_queries_and_keys_is_a_score(rng, n, need_weights):
    q, k, v = qkv(rng, T=n, S=n)
    mask = torch.rand(n, n, generator=rng) < 0.5
    by_name = regard.attention(q, k, v, score="dot", mask=mask, causal=True, need_weights=True)
    got = regard.attention(
        q, k, v, score=lambda q, k: q @ k.mT, mask=mask, causal=True, need_weights=need_weights
    )
    if need_weights:
        torch.testing.assert_close(got.weights, by_name.weights)
        got = got.values
    torch.testing.assert_close(got, by_name.values)


def test_a_plain_function_can_be_entered_as_a_score(rng, monkeypatch):
    monkeypatch.setattr(SCORES, "_things", dict(SCORES))
    SCORES.add("manhattan")(ScoreKind(lambda q, k: -torch.cdist(q, k, p=1)))
    q, k, v = qkv(rng)
    _, weights = regard.attention(q, k, v, score="manhattan", need_weights=True)
    torch.testing.assert_close(weights, (-torch.cdist(q, k, p=1)).softmax(-1))
    assert list(regard.Score("manhattan", d_query=6, d_key=6).parameters()) == []


@pytest.mark.parametrize("need_weights", [False, True])
def test_a_function_that_gives_no_scores_is_refused(rng, need_weights):
    q, k, v = qkv(rng, T=4, S=5)
    with pytest.raises(ShapeError, match=r"one number a query and key .* \(…, 4, 5\), found"):
        regard.attention(q, k, v, score=lambda q, k: q.sum(-1), need_weights=need_weights)
    with pytest.raises(ConfigError, match="a name, a regard.Score or a function .* found int"):
        regard.attention(q, k, v, score=3, need_weights=need_weights)


def test_every_score_has_an_oracle():
    assert SCORES.keys() == PAIR_SCORES.keys()


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(("name", "options"), EVERY_SCORE)
def test_fused_equals_reference_with_gradients(rng, name, options, masked, causal):
    q, k, v = qkv(rng, T=3, S=5)
    score = made(name, options)
    mask = torch.rand(2, 3, 3, 5, generator=rng) < 0.5 if masked else None  # some rows see nothing
    wanted = torch.randn(2, 3, 3, 7, generator=rng, dtype=torch.float64)

    def outcome():
        inputs = [x.clone().requires_grad_() for x in (q, k, v)]
        values = regard.attention(*inputs, score=score, mask=mask, causal=causal)
        (values * wanted).sum().backward()
        grads = [x.grad for x in inputs] + [p.grad.clone() for p in score.parameters()]
        score.zero_grad()
        return values, grads

    values, grads = outcome()
    with reference_only():
        plain_values, plain_grads = outcome()
    torch.testing.assert_close(values, plain_values)
    torch.testing.assert_close(grads, plain_grads)
    assert all(grad.isfinite().all() for grad in grads if grad is not None)


def test_the_fused_kernel_is_really_taken(rng, monkeypatch):
    calls = []
    real = torch.nn.functional.scaled_dot_product_attention
    monkeypatch.setattr(
        torch.nn.functional,
        "scaled_dot_product_attention",
        lambda *a, **kw: calls.append(1) or real(*a, **kw),
    )
    q, k, v = qkv(rng, T=40, S=50)  # fewer go by plain products
    for name in ("dot", "scaled_dot", "content"):
        regard.attention(q, k, v, score=name)
    assert len(calls) == 3
    regard.attention(q, k, v, need_weights=True)
    with reference_only():
        regard.attention(q, k, v)
    assert len(calls) == 3


@pytest.mark.parametrize("fused", [False, True])
def test_a_query_that_sees_nothing_gets_zeros(rng, fused):
    q, k, v = qkv(rng)
    mask = torch.ones(4, 5, dtype=torch.bool)
    mask[2] = False
    if fused:
        values = regard.attention(q, k, v, mask=mask)
    else:
        values, weights = regard.attention(q, k, v, mask=mask, need_weights=True)
        assert (weights[:, :, 2] == 0).all()
        torch.testing.assert_close(
            weights[:, :, [0, 1, 3]].sum(-1), torch.ones(2, 3, 3, dtype=torch.float64)
        )
    assert (values[:, :, 2] == 0).all()
    assert (values[:, :, 1] != 0).any()


def test_a_query_whose_only_keys_lie_beyond_the_table_sees_nothing(rng):
    q, k, v = qkv(rng)
    score = made("location", {"max_len": 3})
    mask = torch.tensor([False, False, False, True, True])
    values, weights = regard.attention(q, k, v, score=score, mask=mask, need_weights=True)
    assert (weights == 0).all()
    assert (values == 0).all()


def test_no_nan_arises_on_the_way_even_where_nothing_is_seen(rng):
    q, k, v = (x.requires_grad_() for x in qkv(rng))
    mask = torch.zeros(4, 5, dtype=torch.bool)
    with pytest.warns(UserWarning, match="Anomaly"), torch.autograd.detect_anomaly():
        regard.attention(q, k, v, mask=mask, need_weights=True).values.sum().backward()


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("name", ["content", "dot", "scaled_dot"])
def test_hidden_means_hidden(rng, name, need_weights):
    q, k, v = qkv(rng)
    mask = torch.rand(5, generator=rng) < 0.5
    before = regard.attention(q, k, v, score=name, mask=mask, need_weights=need_weights)
    k[:, :, ~mask], v[:, :, ~mask] = 1e6, -1e6
    after = regard.attention(q, k, v, score=name, mask=mask, need_weights=need_weights)
    assert all(map(torch.equal, before, after)) if need_weights else torch.equal(before, after)


def test_causal_is_no_looking_ahead_with_the_last_query_at_the_last_key(rng):
    q, k, v = qkv(rng, T=3, S=5)
    mask = torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]).bool()
    wanted = regard.attention(q, k, v, mask=mask)
    torch.testing.assert_close(regard.attention(q, k, v, causal=True), wanted)
    square = regard.attention(q, k[:, :, :3], v[:, :, :3], causal=True)
    torch.testing.assert_close(
        square, regard.attention(q, k[:, :, :3], v[:, :, :3], mask=mask[:, 2:])
    )


def test_gradients_are_right_by_finite_differences(rng):
    q, k, v = (x.requires_grad_() for x in qkv(rng, B=1, H=1, T=2, S=3, Dq=3, Dk=3, Dv=2))
    mask = torch.tensor([[True, False, True], [False, False, False]])
    assert torch.autograd.gradcheck(
        lambda *x: regard.attention(*x, mask=mask, need_weights=True), (q, k, v)
    )


def test_order_of_keys_is_irrelevant_and_order_of_queries_is_kept(rng):
    q, k, v = qkv(rng)
    keys, queries = torch.randperm(5, generator=rng), torch.randperm(4, generator=rng)
    out = regard.attention(q, k, v)
    torch.testing.assert_close(regard.attention(q, k[:, :, keys], v[:, :, keys]), out)
    torch.testing.assert_close(regard.attention(q[:, :, queries], k, v), out[:, :, queries])


def test_any_leading_axes_will_do(rng):
    q, k, v = qkv(rng)
    out = regard.attention(q, k, v, causal=True)
    torch.testing.assert_close(regard.attention(q[1, 2], k[1, 2], v[1, 2], causal=True), out[1, 2])
    torch.testing.assert_close(regard.attention(q[1], k[1], v[1], causal=True), out[1])


def test_scaled_dot_scales_by_the_width_of_a_key():
    q = k = torch.ones(1, 16)
    assert regard.Score("scaled_dot", d_query=16, d_key=16)(q, k).item() == 16 / math.sqrt(16)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mask": torch.zeros(4, 5)}, "boolean"),
        ({"mask": torch.ones(4, 4, dtype=torch.bool)}, r"does not broadcast.*\(2, 3, 4, 5\)"),
        ({"v": torch.zeros(2, 3, 4, 7)}, "k has 5 positions but v has 4"),
        ({"k": torch.zeros(2, 3, 5, 2)}, "one width, got 6 and 2.*general"),
        ({"bias": torch.zeros(4, 4)}, r"bias \(4, 4\) does not broadcast"),
        ({"bias": Alibi(torch.ones(2))}, "2 slopes, one a head"),
        ({"score": "additive"}, "has parameters.*regard.Score"),
        ({"score": "scaled_dto"}, "did you mean 'scaled_dot'"),
    ],
)
def test_errors_teach(rng, change, message):
    q, k, v = qkv(rng)
    given = {"q": q, "k": k, "v": v, **change}
    with pytest.raises(regard.RegardError, match=message):
        regard.attention(given.pop("q"), given.pop("k"), given.pop("v"), **given)


def test_a_normaliser_may_be_named(rng):
    q, k, v = qkv(rng)
    found = regard.attention(q, k, v, normaliser="hard", need_weights=True)
    assert set(found.weights.flatten().tolist()) == {0.0, 1.0}
    with pytest.raises(regard.ConfigError, match="softmax"):
        regard.attention(q, k, v, normaliser="softmx")


def test_what_is_no_tensor_is_told(rng):
    q, k, v = qkv(rng)
    with pytest.raises(regard.ShapeError, match=r"k must be a torch tensor, found ndarray"):
        regard.attention(q, k.numpy(), v)


@pytest.mark.parametrize("n", [20, 50])
@pytest.mark.parametrize("need_weights", [False, True])
def test_a_bias_that_hides_all_from_a_query_gives_it_zeros(rng, n, need_weights):
    q, k, v = (torch.randn(2, 3, n, 8, generator=rng) for _ in range(3))
    bias = torch.zeros(n, n)
    bias[1], bias[2, 5] = -torch.inf, -torch.inf
    found = regard.attention(q, k, v, bias=bias, need_weights=need_weights)
    values = found.values if need_weights else found
    assert (values[:, :, 1] == 0).all()
    torch.testing.assert_close(values, regard.attention(q, k, v, mask=bias > -torch.inf))


@pytest.mark.parametrize(
    ("shapes", "mask", "said"),
    [
        (((8,), (5, 8), (5, 8)), None, r"q must be \(…, positions, width\), found \(8,\)"),
        (((4, 8), (5, 8), (5, 8)), [[True]], "a mask must be a boolean torch tensor, found list"),
        (((2, 4, 8), (5, 6, 8), (5, 6, 8)), None, r"leading axes do not broadcast: q \(2, 4, 8\)"),
    ],
)
def test_what_does_not_fit_together_is_refused_in_words(shapes, mask, said):
    with pytest.raises(ShapeError, match=said):
        regard.attention(*map(torch.zeros, shapes), mask=mask)


def test_a_mask_may_have_the_leading_axes_of_the_keys():
    q, k, mask = torch.zeros(4, 8), torch.ones(5, 6, 8), torch.ones(5, 4, 6).bool()
    assert (regard.attention(q, k, k, mask=mask) == 1).all()


def test_hard_attention_to_no_key_gives_zeros():
    q, k = torch.zeros(4, 8), torch.zeros(0, 8)
    assert (regard.attention(q, k, k, normaliser="hard") == 0).all()


@pytest.mark.parametrize(("first", "nothing"), [(-300, True), (-200, False), (500, True)])
def test_a_window_that_no_key_is_near_gives_zeros(first, nothing):
    q, k = torch.zeros(1, 1, 200, 8), torch.ones(1, 1, 400, 8)
    found = regard.attention(q, k, k, near=regard.Near(3, first=first))
    assert (found == 0).all() == nothing
