import math

import torch
from torch import nn

from regard.layers.embeddings import InputEmbedding, token_embedding
from regard.layers.feed_forward import FeedForward
from regard.layers.positions import make_positions
from regard.layers.residual import Residual


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
    layer = InputEmbedding(tokens, make_positions("none", 16, join="add", max_len=8), dropout=0.0)
    ids = torch.tensor([[3, 8]])
    torch.testing.assert_close(layer(ids)[0, 1], tokens.weight[8] * math.sqrt(16))
