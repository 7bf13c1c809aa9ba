"""Multi-head attention: heads are attentions on projections; any score, any window, any widths."""

import math

import pytest
import torch
from oracles import attend_by_loops, pair_score_of

import regard
from regard.core.errors import ConfigError
from regard.functional.positions import rotated
from regard.functional.scores import SCORES
from regard.layers.window import WINDOWS

B, T, S, D, E, H = 2, 4, 5, 12, 7, 3


def inputs(rng):
    x = torch.randn(B, T, D, generator=rng, dtype=torch.float64)
    memory = torch.randn(B, S, E, generator=rng, dtype=torch.float64)
    return x, memory


def heads(linear, x):
    """(B, T, H·D) -> (B, H, T, D), by slicing."""
    width = linear.out_features // H
    return torch.stack(
        [linear(x)[..., h * width : (h + 1) * width] for h in range(H)], dim=1
    ).detach()


@pytest.mark.parametrize("score", SCORES)
def test_it_is_attention_on_projections_joined_by_w_o(rng, score):
    layer = regard.MultiHeadAttention(D, H, score=score, d_memory=E).double()
    x, memory = inputs(rng)
    mask = torch.rand(B, 1, T, S, generator=rng) < 0.6
    q, k, v = heads(layer.to_q, x), heads(layer.to_k, memory), heads(layer.to_v, memory)
    values, _ = attend_by_loops(q, k, v, mask, pair_score_of(layer.score, q, k))
    joined = torch.cat([values[:, h] for h in range(H)], dim=-1)
    torch.testing.assert_close(layer(x, memory, mask=mask), layer.to_out(joined))


def test_values_of_other_vectors_and_a_bias_by_loops(rng):
    layer = regard.MultiHeadAttention(D, H, d_memory=E).double()
    x, memory = inputs(rng)
    other = torch.randn(B, S, E, generator=rng, dtype=torch.float64)
    bias = torch.randn(B, H, T, S, generator=rng, dtype=torch.float64)
    q, k, v = heads(layer.to_q, x), heads(layer.to_k, memory), heads(layer.to_v, other)
    plain = pair_score_of(layer.score, q, k)
    values, _ = attend_by_loops(
        q, k, v, None, lambda b, h, t, s: plain(b, h, t, s) + float(bias[b, h, t, s])
    )
    joined = torch.cat([values[:, h] for h in range(H)], dim=-1)
    found = layer.look(x, layer.project(memory, other), bias=bias)
    torch.testing.assert_close(found, layer.to_out(joined))


def test_queries_keys_and_values_may_differ_in_width(rng):
    layer = regard.MultiHeadAttention(
        D, H, score="additive", d_memory=E, d_query=2, d_key=5, d_value=3
    ).double()
    x, memory = inputs(rng)
    assert layer.to_out.weight.shape == (D, H * 3)
    q, k, v = heads(layer.to_q, x), heads(layer.to_k, memory), heads(layer.to_v, memory)
    assert (q.shape[-1], k.shape[-1], v.shape[-1]) == (2, 5, 3)
    values, _ = attend_by_loops(q, k, v, None, pair_score_of(layer.score, q, k))
    joined = torch.cat([values[:, h] for h in range(H)], dim=-1)
    torch.testing.assert_close(layer(x, memory), layer.to_out(joined))


def test_it_equals_torchs_own(rng):
    ours = regard.MultiHeadAttention(D, H).double()
    theirs = torch.nn.MultiheadAttention(D, H, batch_first=True, dtype=torch.float64)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(
            torch.cat([ours.to_q.weight, ours.to_k.weight, ours.to_v.weight])
        )
        theirs.in_proj_bias.copy_(torch.cat([ours.to_q.bias, ours.to_k.bias, ours.to_v.bias]))
        theirs.out_proj.weight.copy_(ours.to_out.weight)
        theirs.out_proj.bias.copy_(ours.to_out.bias)
    x, _ = inputs(rng)
    hidden = torch.tensor([[False] * 4, [False, False, True, True]])  # torch: True = hidden
    wanted, _ = theirs(x, x, x, key_padding_mask=hidden)
    torch.testing.assert_close(ours(x, mask=~hidden[:, None, None, :]), wanted)


@pytest.mark.parametrize("window", WINDOWS)
def test_every_window_hides_what_it_says(rng, window):
    layer = regard.MultiHeadAttention(D, H, window=window, half_width=1).double()
    x, _ = inputs(rng)
    seen = []
    layer.view.register_forward_hook(lambda _m, _i, out: seen.append(out))
    out = layer(x)
    weights = seen[0].attended().weights
    t, s = torch.arange(T)[:, None], torch.arange(T)
    if window == "local_p":
        q = seen[0].q
        for b, h, i in torch.cartesian_prod(torch.arange(B), torch.arange(H), torch.arange(T)):
            inside = torch.tanh(q[b, h, i] @ layer.window.weight[h]) @ layer.window.v[h]
            centre = T / (1 + math.exp(-inside.item()))
            near = [j for j in range(T) if abs(j - centre) <= 1]
            raw = [math.exp((q[b, h, i] @ seen[0].k[b, h, j] / 2).item()) for j in near]
            for j in range(T):
                wanted = 0.0
                if j in near:
                    gauss = math.exp(-((j - centre) ** 2) / (2 * 0.5**2))
                    wanted = raw[near.index(j)] / sum(raw) * gauss
                assert math.isclose(weights[b, h, i, j].item(), wanted, abs_tol=1e-9)
        assert (weights.sum(-1) < 1).all()
    else:
        allowed = {
            "global": t == t,
            "causal": s <= t,
            "local_m": (s - t).abs() <= 1,
            "block": torch.tensor([[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 1, 1]]) > 0,
            "compressed": torch.ones(T, 2, dtype=torch.bool),  # the null, and one slot of three
        }[window]
        assert ((weights > 0) == allowed).all()
        torch.testing.assert_close(weights.sum(-1), torch.ones(B, H, T, dtype=torch.float64))
    joined = seen[0].attended().values.transpose(1, 2).flatten(2)
    torch.testing.assert_close(out, layer.to_out(joined))


def test_the_predicted_window_counts_no_padding(rng):
    layer = regard.MultiHeadAttention(D, H, window="local_p", half_width=1).double()
    x, _ = inputs(rng)
    mask = torch.tensor([True, True, True, False])
    padded = layer(x, mask=mask)[:, :3]
    torch.testing.assert_close(padded, layer(x[:, :3]))


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("score", SCORES)
def test_cached_equals_full_at_every_cut(rng, score, window):
    layer = regard.MultiHeadAttention(D, H, score=score, window=window, half_width=1).double()
    x, _ = inputs(rng)
    full = layer(x, causal=True)
    for cut in range(1, T):
        past = layer.project(x[:, :cut])
        present = layer.extended(past, x[:, cut:])
        tail = layer.look(x[:, cut:], present, causal=True, first=cut)
        torch.testing.assert_close(tail, full[:, cut:])


def test_nothing_is_left_on_the_module(rng):
    layer = regard.MultiHeadAttention(D, H).double()
    x, _ = inputs(rng)
    before = {name: id(module) for name, module in vars(layer).items()}
    layer(x)
    assert {name: id(module) for name, module in vars(layer).items()} == before


def test_heads_must_divide_the_width():
    with pytest.raises(regard.ConfigError, match="d_model=10 is not a multiple of n_heads=4"):
        regard.MultiHeadAttention(10, 4)


def test_a_window_needs_a_width():
    with pytest.raises(regard.ConfigError, match="half_width=0"):
        regard.MultiHeadAttention(D, H, window="local_m", half_width=0)


@pytest.mark.parametrize("score", [name for name in SCORES if name != "location"])
def test_hiding_a_key_is_deleting_it(rng, score):
    """``location`` is left out: its scores belong to places, not to keys."""
    layer = regard.MultiHeadAttention(D, H, score=score, d_memory=E).double()
    x, memory = inputs(rng)
    mask = torch.tensor([True, True, False, True, True])
    torch.testing.assert_close(layer(x, memory, mask=mask), layer(x, memory[:, mask]))


def test_the_predicted_window_keeps_its_place_in_bf16(rng):
    layer = regard.MultiHeadAttention(D, H, window="local_p", half_width=1)
    q = torch.randn(1, H, T, D // H, generator=rng).bfloat16()
    near, *_ = layer.window(q, 401, None, False, 0)
    with torch.autocast("cpu", torch.bfloat16):
        again, *_ = layer.window(q, 401, None, False, 0)
    assert torch.equal(near, again)
    exact, *_ = layer.window(q.float(), 401, None, False, 0)
    assert torch.equal(near, exact)


@pytest.mark.parametrize("n_kv_heads", [1, 2, 6])
def test_heads_that_share_keys_are_heads_with_the_same_keys(rng, n_kv_heads):
    few = regard.MultiHeadAttention(12, 6, n_kv_heads=n_kv_heads, positions="rotary")
    many = regard.MultiHeadAttention(12, 6, positions="rotary")
    with torch.no_grad():
        for name, weight in many.named_parameters():
            own = few.get_parameter(name)
            if name.startswith(("to_k", "to_v")):
                by_head = own.unflatten(0, (n_kv_heads, 2))
                own = by_head.repeat_interleave(6 // n_kv_heads, dim=0).flatten(0, 1)
            weight.copy_(own)
    x = torch.randn(2, 5, 12, generator=rng)
    torch.testing.assert_close(few(x, causal=True), many(x, causal=True))
    assert few.project(x).k.shape == (2, n_kv_heads, 5, 2)


def test_keys_must_be_shared_evenly():
    with pytest.raises(regard.ConfigError, match="n_kv_heads=4 does not divide n_heads=6"):
        regard.MultiHeadAttention(12, 6, n_kv_heads=4)


def test_a_larger_base_turns_more_slowly(rng):
    x = torch.randn(1, 1, 4, generator=rng)
    quick, slow = (rotated(x, torch.tensor([5]), base) for base in (100.0, 1e8))
    assert torch.equal(quick[..., :2], slow[..., :2])  # the first pair turns by 1 a place
    torch.testing.assert_close(slow[..., 2:], x[..., 2:], atol=1e-2, rtol=0)
    assert (quick[..., 2:] - x[..., 2:]).abs().max() > 0.1


@pytest.mark.parametrize(
    "sizes", [{"n_heads": 0}, {"n_heads": 4, "n_kv_heads": 0}, {"n_heads": 4, "n_kv_heads": -2}]
)
def test_at_least_one_head_is_needed(sizes):
    with pytest.raises(ConfigError, match="at least 1 is needed|greater than or equal to 1"):
        regard.MultiHeadAttention(8, **sizes)


def test_a_beta_that_is_none_is_refused():
    with pytest.raises(ConfigError, match="unknown beta 'learnt' .did you mean 'learned'"):
        regard.Score("content", d_query=4, d_key=4, beta="learnt")
    with pytest.raises(ConfigError, match="'dot' has none"):
        regard.Score("dot", d_query=4, d_key=4, beta="learned")


def test_parameters_of_a_score_may_be_parametrized(rng):
    score = regard.Score("general", d_query=4, d_key=4)
    q, k = torch.randn(2, 3, 4, generator=rng)
    plain = score(q, k)
    torch.nn.utils.parametrizations.spectral_norm(score, "weight").eval()
    assert score(q, k).shape == plain.shape
    assert not torch.equal(score(q, k), plain)
