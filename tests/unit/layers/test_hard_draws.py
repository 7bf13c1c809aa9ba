"""Hard attention: what is drawn, how often, and what is told of it."""

import pytest
import torch
from pydantic import ValidationError

from regard.functional.attend import NORMALISERS, drawn, hard, softmax
from regard.layers.attention import MultiHeadAttention
from regard.layers.blocks import DecoderBlock
from regard.layers.draw import Draw
from regard.layers.settings import BlockSettings
from regard.models.settings import EncoderConfig


def account_of(draw):
    kept = []
    draw.account.register_forward_hook(lambda _module, _inputs, drawn: kept.append(drawn))
    return kept


def test_hard_weights_are_one_for_the_best_visible_key(rng):
    scores = torch.randn(2, 3, 4, 5, generator=rng)
    visible = torch.rand(2, 3, 4, 5, generator=rng) < 0.6
    visible[0, 0, 0] = False
    weights = hard(scores, visible)
    for index in torch.cartesian_prod(*map(torch.arange, (2, 3, 4))):
        row, seen = scores[tuple(index)], visible[tuple(index)]
        wanted = torch.zeros(5)
        if seen.any():
            best = max((j for j in range(5) if seen[j]), key=lambda j: row[j].item())
            wanted[best] = 1.0
        assert torch.equal(weights[tuple(index)], wanted)


def test_scores_of_minus_infinity_are_never_looked_at():
    assert hard(torch.full((1, 3), -torch.inf), None).tolist() == [[0.0, 0.0, 0.0]]
    drawn = Draw()(torch.tensor([[[[-torch.inf, 0.0]]]]), None)
    assert drawn.tolist() == [[[[0.0, 1.0]]]]


def test_in_evaluation_the_best_key_is_taken(rng):
    scores = torch.randn(2, 1, 4, 5, generator=rng)
    assert torch.equal(Draw().eval()(scores, None), hard(scores, None))


def test_keys_are_drawn_as_often_as_the_softmax_says():
    torch.manual_seed(0)
    scores = torch.tensor([0.5, -1.0, 1.2, 0.0])
    visible = torch.tensor([True, True, True, False])
    n = 40_000
    weights = Draw()(scores.expand(n, 1, 1, 4), visible)
    assert torch.equal(weights.sum(dim=-1), torch.ones(n, 1, 1))
    expected = softmax(scores, visible)
    found = weights.mean(dim=(0, 1, 2))
    assert found[3] == 0
    chi = (n * (found - expected)[:3].square() / expected[:3]).sum()
    assert chi < 13.8  # two degrees of freedom: one in a thousand


def test_the_account_tells_log_probability_and_entropy(rng):
    torch.manual_seed(0)
    scores = torch.randn(3, 2, 4, 5, generator=rng, dtype=torch.float64)
    visible = torch.rand(3, 2, 4, 5, generator=rng) < 0.7
    visible[..., 0] = True
    draw = Draw()
    kept = account_of(draw)
    weights = draw(scores, visible)
    chances = softmax(scores, visible)
    (drawn,) = kept
    chosen = chances.gather(-1, weights.argmax(dim=-1, keepdim=True)).squeeze(-1)
    torch.testing.assert_close(drawn.log_prob, chosen.log())
    torch.testing.assert_close(drawn.entropy, torch.special.entr(chances).sum(dim=-1))


def test_a_row_that_sees_nothing_draws_nothing_and_learns_nothing():
    scores = torch.randn(1, 1, 2, 3, requires_grad=True)
    visible = torch.tensor([[True, True, True], [False, False, False]])
    draw = Draw()
    kept = account_of(draw)
    weights = draw(scores, visible)
    assert weights[0, 0, 1].tolist() == [0.0, 0.0, 0.0]
    (kept[0].log_prob.sum() + kept[0].entropy.sum()).backward()
    assert torch.equal(scores.grad[0, 0, 1], torch.zeros(3))
    assert torch.isfinite(scores.grad).all()


@pytest.mark.parametrize("score", ["scaled_dot", "additive", "location", "content"])
def test_a_head_may_be_hard_with_any_score(score):
    torch.manual_seed(0)
    layer = MultiHeadAttention(12, 3, score=score, normaliser="hard")
    x, memory = torch.randn(2, 4, 12), torch.randn(2, 5, 12)
    kept = account_of(layer.normaliser)
    layer(x, memory)
    assert kept[0].log_prob.shape == (2, 3, 4)
    assert torch.equal(layer.eval()(x, memory), layer(x, memory))


def test_any_normaliser_that_says_so_is_drawn_and_only_across(monkeypatch, rng):
    """One of somebody else, which takes the worst key."""
    worst = drawn(lambda scores, visible: hard(-scores, visible))
    monkeypatch.setitem(NORMALISERS._things, "worst", worst)
    settings = BlockSettings(d_model=12, n_heads=3, d_ff=8, normaliser="worst")
    block = DecoderBlock(settings, cross_after="attention")
    assert block.self_attention.normaliser is softmax
    assert isinstance(block.cross_attention.normaliser, Draw)
    scores = torch.randn(2, 1, 4, 5, generator=rng)
    found = block.cross_attention.normaliser.eval()(scores, None)
    assert torch.equal(found, hard(-scores, None))
    with pytest.raises(ValidationError, match="normaliser 'worst' draws one key"):
        EncoderConfig(family="encoder", n_vocab=9, normaliser="worst")
