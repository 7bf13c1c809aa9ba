"""The windows of long texts, ``block`` and ``compressed``: by loops, and the laws of the future."""

import math

import pytest
import torch
from oracles import (
    attend_by_loops,
    block_mask_by_loops,
    pair_score_of,
    slot_mask_by_loops,
    slots_by_loops,
)

import regard
from regard.functional.positions import rotated
from regard.functional.scores import SCORES
from regard.layers.key_values import CompressedKeyValues

B, D, H = 2, 12, 3
LENGTHS = [1, 2, 3, 4, 8, 9, 10]


def attention_of(**options):
    torch.manual_seed(3)
    layer = regard.MultiHeadAttention(D, H, **options).double()
    if options.get("window") == "compressed":
        with torch.no_grad():
            layer.window.null_value.normal_()
    return layer


def text(rng, n, width=D):
    return torch.randn(B, n, width, generator=rng, dtype=torch.float64)


def heads(linear, x, n=H):
    """(B, T, n·D) -> (B, n, T, D), by slicing."""
    width = linear.out_features // n
    parts = [linear(x)[..., h * width : (h + 1) * width] for h in range(n)]
    return torch.stack(parts, dim=1).detach()


def by_loops(layer, x, memory, mask):
    """Attention to the memory's slots, of which the mask says who sees them."""
    q, k, v = heads(layer.to_q, x), heads(layer.to_k, memory), heads(layer.to_v, memory)
    window = layer.window
    k = slots_by_loops(k, window.to_key.detach(), window.null_key.detach())
    v = slots_by_loops(v, window.to_value.detach(), window.null_value.detach())
    values, _ = attend_by_loops(q, k, v, mask, pair_score_of(layer.score, q, k))
    return layer.to_out(torch.cat([values[:, h] for h in range(H)], dim=-1))


@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("causal", [False, True])
def test_compressed_attention_by_loops(rng, n, causal):
    layer, x = attention_of(window="compressed"), text(rng, n)
    wanted = by_loops(layer, x, x, slot_mask_by_loops(n, causal=causal))
    torch.testing.assert_close(layer(x, causal=causal), wanted)


@pytest.mark.parametrize("score", SCORES)
def test_slots_are_matched_by_any_score(rng, score):
    layer, x = attention_of(window="compressed", score=score), text(rng, 7)
    wanted = by_loops(layer, x, x, slot_mask_by_loops(7, causal=True))
    torch.testing.assert_close(layer(x, causal=True), wanted)


@pytest.mark.parametrize("n", [*LENGTHS, 67])
@pytest.mark.parametrize("causal", [False, True])
def test_block_attention_by_loops(rng, n, causal):
    layer, x = attention_of(window="block", half_width=2), text(rng, n)
    q, k, v = heads(layer.to_q, x), heads(layer.to_k, x), heads(layer.to_v, x)
    mask = block_mask_by_loops(n, 4, causal=causal)
    values, _ = attend_by_loops(q, k, v, mask, pair_score_of(layer.score, q, k))
    wanted = layer.to_out(torch.cat([values[:, h] for h in range(H)], dim=-1))
    torch.testing.assert_close(layer(x, causal=causal), wanted)


def test_a_source_is_compressed_for_who_looks_at_it(rng):
    layer = attention_of(window="compressed", d_memory=7)
    x, memory = text(rng, 4), text(rng, 8, width=7)
    wanted = by_loops(layer, x, memory, torch.ones(4, 3, dtype=torch.bool))
    torch.testing.assert_close(layer(x, memory), wanted)


@pytest.mark.parametrize("n", [2, 3, 5, 6, 7])
def test_a_slot_with_padding_in_it_is_no_slot(rng, n):
    layer, x = attention_of(window="compressed"), text(rng, 10)
    mask = (torch.arange(10) < n)[None, None, None]
    torch.testing.assert_close(layer(x, mask=mask)[:, :n], layer(x[:, :n]))


@pytest.mark.parametrize("n", [10, 70])
def test_no_future_leaks_through_a_slot_and_the_past_comes_through_it(rng, n):
    layer, x = attention_of(window="compressed"), text(rng, n)
    full = layer(x, causal=True)
    for t in range(n):
        other = x.clone()
        other[:, t] += 1
        found = layer(other, causal=True)
        assert torch.equal(found[:, :t], full[:, :t])
        changed = ((found - full).abs().amax(dim=-1) > 0).all(dim=0)  # (n,)
        end = t // 3 * 3 + 2  # of the slot that t lies in
        assert bool(changed[t]) == (t >= 2)  # it asks by itself, where there is a slot to see
        assert changed[end:].all()
        assert not changed[t + 1 : end].any()


def test_queries_before_the_first_slot_see_the_null_alone(rng):
    layer, x = attention_of(window="compressed"), text(rng, 5)
    found = layer(x, causal=True)
    null = layer.to_out(layer.window.null_value.flatten())
    torch.testing.assert_close(found[:, :2], null.expand(B, 2, D))
    assert not torch.allclose(found[:, 2], null)


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("n_kv_heads", [1, 3])
def test_reading_piece_by_piece_keeps_the_same_slots(rng, n_kv_heads, grad):
    layer, x = attention_of(window="compressed", n_kv_heads=n_kv_heads), text(rng, 11)
    full, whole = layer(x, causal=True), layer.project(x)
    for cuts in ((1, 2, 3, 4, 5, 6, 7, 8, 9, 10), (5,), (2, 9), (3, 6)):
        with torch.set_grad_enabled(grad):
            kept = layer.project(x[:, :0])
            for begin, end in zip((0, *cuts), (*cuts, 11), strict=True):
                kept = layer.extended(kept, x[:, begin:end])
                found = layer.look(x[:, begin:end], kept, causal=True, first=begin)
                torch.testing.assert_close(found, full[:, begin:end])
        assert isinstance(kept, CompressedKeyValues)
        assert kept.length == 11
        torch.testing.assert_close(kept.slots.k, whole.slots.k)
        torch.testing.assert_close(kept.slots.v, whole.slots.v)


@pytest.mark.parametrize("window", ["global", "local_m", "local_p", "block", "compressed"])
@pytest.mark.parametrize("positions", ["none", "rotary", "alibi"])
def test_behind_prefixes_of_different_lengths_as_behind_each_alone(rng, window, positions):
    if window == "compressed" and positions == "alibi":
        return  # refused, see below
    layer = attention_of(window=window, half_width=2, positions=positions)
    lengths, x = torch.tensor([5, 3, 0, 7]), torch.randn(4, 12, D, generator=rng).double()
    prefix = layer.project(x[:, :7])
    own = torch.stack([x[b, n : n + 5] for b, n in enumerate(lengths.tolist())])
    for cut in range(5):
        past = layer.extended(layer.project(own[:, :0]), own[:, :cut])
        kept = layer.extended(past, own[:, cut:])
        found = layer.look_back(own[:, cut:], prefix, kept, lengths, cut)
        for b, n in enumerate(lengths.tolist()):
            alone = layer(x[b : b + 1, : n + 5], causal=True)
            torch.testing.assert_close(found[b], alone[0, n + cut :])


def test_queries_turn_by_where_they_stand_and_slots_by_their_last_position(rng):
    layer = attention_of(window="compressed", positions="rotary")
    x = torch.randn(2, 8, D, generator=rng).double()
    slots = layer.window.looked_at(layer.project(x))  # the null, and two of three positions
    q = layer.to_q(x).unflatten(-1, (H, -1)).transpose(1, 2)
    t, places = torch.arange(8), torch.tensor([-1, 2, 5])
    scores = rotated(q, t) @ rotated(slots.k, places).mT / math.sqrt(q.shape[-1])
    hidden = places > t[:, None]
    weights = scores.masked_fill(hidden, -torch.inf).softmax(-1)
    wanted = layer.to_out((weights @ slots.v).transpose(1, 2).flatten(2))
    torch.testing.assert_close(layer(x, causal=True), wanted)


def test_what_cannot_be_compressed_is_refused():
    with pytest.raises(regard.ConfigError, match="positions 'alibi' are told to each"):
        regard.MultiHeadAttention(D, H, window="compressed", positions="alibi")
