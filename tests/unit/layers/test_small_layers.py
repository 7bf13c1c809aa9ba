import math

import torch
from torch import nn

from regard.layers.blocks import Residual, make_norm
from regard.layers.embeddings import InputEmbedding, token_embedding
from regard.layers.feed_forward import ACTIVATIONS, FeedForward
from regard.layers.positions import make_positions


def test_feed_forward_is_two_maps_with_a_relu_between(rng):
    layer = FeedForward(3, 5)
    x = torch.randn(2, 4, 3, generator=rng)
    for b in range(2):
        for t in range(4):
            inner = layer.inner.weight @ x[b, t] + layer.inner.bias
            wanted = layer.outer.weight @ torch.clamp(inner, min=0) + layer.outer.bias
            torch.testing.assert_close(layer(x)[b, t], wanted)


def test_post_norm_normalises_the_sum_and_pre_norm_the_input(rng):
    x, y = torch.randn(2, 2, 4, 6, generator=rng).unbind(0)
    post = Residual(6, dropout=0.0, norm_first=False)
    assert post.enter(x) is x
    torch.testing.assert_close(post.leave(x, y), nn.functional.layer_norm(x + y, (6,)))
    pre = Residual(6, dropout=0.0, norm_first=True)
    torch.testing.assert_close(pre.enter(x), nn.functional.layer_norm(x, (6,)))
    assert torch.equal(pre.leave(x, y), x + y)


def test_dropout_falls_on_what_is_added_not_on_the_stream():
    residual = Residual(6, dropout=0.5, norm_first=True).train()
    assert torch.equal(residual.leave(torch.ones(3, 6), torch.zeros(3, 6)), torch.ones(3, 6))
    out = residual.leave(torch.zeros(50, 6), torch.ones(50, 6))
    assert set(out.unique().tolist()) == {0.0, 2.0}


def test_embeddings_are_scaled_by_the_root_of_the_width():
    tokens = token_embedding(9, 16)
    layer = InputEmbedding(
        tokens, make_positions("none", 16, join="add", max_len=8), scale=math.sqrt(16)
    )
    ids = torch.tensor([[3, 8]])
    torch.testing.assert_close(layer(ids)[0, 1], tokens.weight[8] * math.sqrt(16))


def test_a_gated_feed_forward_multiplies_by_a_second_projection(rng):
    layer = FeedForward(3, 5, bias=False, activation="swiglu")
    x = torch.randn(4, 3, generator=rng)
    inner, beside = x @ layer.inner.weight.T, x @ layer.beside.weight.T
    wanted = (inner / (1 + torch.exp(-inner)) * beside) @ layer.outer.weight.T
    torch.testing.assert_close(layer(x), wanted)


def test_gelu_is_the_normal_distribution_and_tanh_nearly_so(rng):
    x = torch.randn(50, generator=rng)
    exact = x * 0.5 * (1 + torch.erf(x / math.sqrt(2)))
    torch.testing.assert_close(ACTIVATIONS["gelu"](x), exact)
    nearly = ACTIVATIONS["gelu_tanh"](x)
    assert 0 < (nearly - exact).abs().max() < 2e-3


def test_rms_norm_divides_by_the_root_of_the_mean_square(rng):
    x = torch.randn(3, 6, generator=rng) + 2
    norm = make_norm("rms", 6, eps=1e-3)
    wanted = torch.stack([row / math.sqrt(float(row.square().mean()) + 1e-3) for row in x])
    torch.testing.assert_close(norm(x), wanted)
    residual = Residual(6, dropout=0.0, norm_first=True, norm="rms", eps=1e-3)
    torch.testing.assert_close(residual.enter(x), wanted)


def test_embeddings_that_are_not_scaled_are_taken_as_they_are():
    tokens = token_embedding(9, 16)
    plain = InputEmbedding(tokens, make_positions("none", 16, join="add", max_len=8))
    assert torch.equal(plain(torch.tensor([[3]]))[0, 0], tokens.weight[3])
