"""The two blocks: what their settings do, and how often stochastic depth skips them."""

import pytest
import torch

import regard
from regard.core.errors import ConfigError
from regard.functional import masks
from regard.layers.blocks import DecoderBlock, EncoderBlock, begin_small
from regard.layers.dropout import DropPath
from regard.layers.key_values import KeyValues
from regard.layers.settings import AttentionSettings, BlockSettings
from regard.models.settings import TransformerConfig
from regard.models.transformer import Transformer

B, T, S, D = 2, 5, 7, 12


def settings(**changes):
    return BlockSettings(**{"d_model": D, "n_heads": 3, "d_ff": 20, "dropout": 0.0, **changes})


def decoded(block, rng):
    """What a decoder block makes of random numbers, and those."""
    x = torch.randn(B, T, D, generator=rng, dtype=torch.float64)
    memory = torch.randn(B, S, D, generator=rng, dtype=torch.float64)
    nothing = KeyValues(*torch.empty(2, B, 3, 0, D // 3, dtype=torch.float64))
    return block(x, nothing, block.cross_attention.project(memory))[0], x, memory


def behind(around, x, added):
    """The residual connection, post-norm."""
    return around.norm(x + added)


@pytest.mark.parametrize("cross_after", ["attention", "feed_forward"])
def test_the_source_is_looked_at_after_the_sub_layer_that_is_named(rng, cross_after):
    block = DecoderBlock(settings(), cross_after=cross_after).double().eval()
    found, x, memory = decoded(block, rng)
    x = behind(block.around_self, x, block.self_attention(x, causal=True))
    if cross_after == "attention":
        x = behind(block.around_cross, x, block.cross_attention(x, memory))
    x = behind(block.around_feed_forward, x, block.feed_forward(x))
    if cross_after == "feed_forward":
        x = behind(block.around_cross, x, block.cross_attention(x, memory))
    torch.testing.assert_close(found, x)


@pytest.mark.parametrize("norm_first", [False, True])
def test_positions_join_queries_and_keys_of_an_encoder_but_not_values(rng, norm_first):
    block = EncoderBlock(settings(norm_first=norm_first)).double().eval()
    x, positions = torch.randn(2, B, T, D, generator=rng, dtype=torch.float64)
    y = block.around_self.enter(x)
    attention = block.self_attention
    found = attention.look(y + positions, attention.project(y + positions, y))
    expected = block.around_self.leave(x, found)
    around = block.around_feed_forward
    expected = around.leave(expected, block.feed_forward(around.enter(expected)))
    torch.testing.assert_close(block(x, None, positions), expected)
    without = block(x, None)
    torch.testing.assert_close(block(x, None, torch.zeros_like(x)), without)
    assert not torch.allclose(block(x, None, positions), without)


def test_a_decoder_that_looks_at_all_at_once(rng):
    block = DecoderBlock(settings(), cross_after="attention").double().eval()
    x, positions = torch.randn(2, B, T, D, generator=rng, dtype=torch.float64)
    memory = torch.randn(B, S, D, generator=rng, dtype=torch.float64)
    mask = torch.rand(T, T, generator=rng) < 0.5
    bias = torch.randn(B, 3, T, S, generator=rng, dtype=torch.float64)
    own, across = block.self_attention, block.cross_attention
    source = across.project(memory)
    found = block.together(x, source, mask=mask, positions=positions, bias=bias)
    seen = own.look(x + positions, own.project(x + positions, x), mask=mask)
    y = behind(block.around_self, x, seen)
    y = behind(block.around_cross, y, across.look(y + positions, source, bias=bias))
    torch.testing.assert_close(found, behind(block.around_feed_forward, y, block.feed_forward(y)))
    order = torch.tensor([3, 0, 4, 1, 2])
    moved = block.together(
        x[:, order], source, mask=mask[order][:, order], positions=positions[:, order],
        bias=bias[:, :, order],
    )  # fmt: skip
    torch.testing.assert_close(moved, found[:, order])


def test_both_orders_have_the_same_parameters():
    orders = [DecoderBlock(settings(), cross_after=one) for one in ("attention", "feed_forward")]
    names = [list(block.state_dict()) for block in orders]
    assert names[0] == names[1]


def test_without_a_source_there_is_no_attention_across():
    block = DecoderBlock(settings())
    assert block.cross_attention is None
    assert not any("cross" in name for name in block.state_dict())


def test_positions_and_hard_choices_go_where_they_belong():
    block = DecoderBlock(settings(positions="rotary", normaliser="hard"), cross_after="attention")
    attentions = block.self_attention, block.cross_attention
    assert [type(one.relative).__name__ for one in attentions] == [
        "RotaryPositions",
        "RelativePositions",
    ]
    assert [type(one.normaliser).__name__ for one in attentions] == ["function", "Draw"]


def test_the_deeper_a_layer_the_more_often_it_is_skipped():
    blocks = [EncoderBlock(settings(drop_path=0.3), layer=i, n_layers=3) for i in range(3)]
    shares = [block.around_self.drop_path.p for block in blocks]
    assert shares == pytest.approx([0.1, 0.2, 0.3])
    assert [block.around_feed_forward.drop_path.p for block in blocks] == shares


def test_a_text_skips_a_sub_layer_whole_and_the_others_make_up_for_it():
    torch.manual_seed(0)
    out = DropPath(0.25)(torch.ones(20_000, 3, 2))
    kept = out[:, 0, 0] != 0
    assert torch.equal(out, kept[:, None, None] * torch.full((3, 2), 1 / 0.75))
    assert abs(kept.sum().item() - 15_000) < 5 * (20_000 * 0.25 * 0.75) ** 0.5


def test_nothing_is_skipped_when_not_training_or_with_a_share_of_zero(rng):
    x = torch.randn(5, 2, 3, generator=rng)
    assert DropPath(0.9).eval()(x) is x
    assert DropPath(0.0)(x) is x


def test_what_is_skipped_leaves_the_stream_as_it_was():
    torch.manual_seed(0)
    block = EncoderBlock(settings(drop_path=0.9, norm_first=True)).train()
    x = torch.randn(30, 4, D)
    same = (block(x, None) == x).all(dim=2).all(dim=1)
    assert 0 < same.sum() < 30


# ------------------------------------------------------------------ multi-head attention


def test_w_o_may_lead_to_another_width(rng):
    x = torch.randn(B, T, D, generator=rng)
    layer = regard.MultiHeadAttention(D, 3, d_value=2, d_out=5)
    assert layer.to_out.weight.shape == (5, 6)
    assert layer(x).shape == (B, T, 5)


def test_settings_come_as_one_object_or_one_by_one(rng):
    x = torch.randn(B, T, D, generator=rng)
    made = []
    for given in ({"settings": AttentionSettings(score="additive")}, {"score": "additive"}):
        torch.manual_seed(1)
        made.append(regard.MultiHeadAttention(D, 3, **given))
    assert torch.equal(made[0](x), made[1](x))
    with pytest.raises(ConfigError, match="one object or one by one"):
        regard.MultiHeadAttention(D, 3, AttentionSettings(), score="dot")


def test_a_setting_that_attention_does_not_have_is_refused_with_the_nearest():
    with pytest.raises(ConfigError, match=r"'scores' \(did you mean 'score'\?\)$"):
        regard.MultiHeadAttention(D, 3, scores="dot")


def test_attention_is_told_relative_positions_only():
    with pytest.raises(ConfigError, match="told positions none, alibi, rotary; 'learned' join"):
        regard.MultiHeadAttention(D, 3, positions="learned")


@pytest.mark.parametrize("n_layers", [2, 3])
def test_sub_layers_of_a_deep_post_norm_stack_begin_small(n_layers):
    torch.manual_seed(5)
    blocks = [DecoderBlock(settings(), cross_after="attention") for _ in range(n_layers)]
    before = [{n: p.clone() for n, p in block.named_parameters()} for block in blocks]
    begin_small(blocks)
    added = ("to_v.weight", "to_out.weight", "inner.weight", "outer.weight")
    shrunk = (4 * 9) ** -0.25 if n_layers == 3 else 1.0  # nine sub-layers; two layers are shallow
    for block, old in zip(blocks, before, strict=True):
        for name, now in block.named_parameters():
            factor = shrunk if name.endswith(added) else 1.0
            torch.testing.assert_close(now, factor * old[name])


def words_left(norm_first):
    """How much of a word is in what six fresh encoder layers make of it: a cosine."""
    torch.manual_seed(6)
    config = TransformerConfig(
        n_source_vocab=30, n_target_vocab=30, d_model=32, n_heads=4, d_ff=64, norm_first=norm_first
    )
    encoder = Transformer(config).eval().encoder
    ids = torch.randint(4, 30, (8, 12))
    with torch.no_grad():
        x = encoder.embedding(ids)
        y = encoder(ids, masks.padding(ids, pad=0))
    return torch.cosine_similarity(x, y, dim=-1).mean()


def test_words_are_left_after_a_fresh_post_norm_stack_as_after_a_pre_norm_one(monkeypatch):
    post, pre = words_left(norm_first=False), words_left(norm_first=True)
    monkeypatch.setattr("regard.models.transformer.begin_small", lambda _layers: None)
    without = words_left(norm_first=False)
    assert words_left(norm_first=True) == pre  # pre-norm is as it was
    assert without < 0.5 * post
    assert post > 0.5


def test_experts_of_a_post_norm_stack_begin_small_too():
    def spread(**experts):
        torch.manual_seed(0)
        blocks = [EncoderBlock(settings(d_ff=32, **experts), layer=i, n_layers=4) for i in range(4)]
        before = [p.std().item() for p in blocks[0].feed_forward.parameters() if p.dim() > 1]
        begin_small(blocks)
        after = [p.std().item() for p in blocks[0].feed_forward.parameters() if p.dim() > 1]
        return [b / a for a, b in zip(before, after, strict=True) if a > 0]

    shares = spread(experts=3, d_expert=32)
    assert shares == pytest.approx([(4 * 8) ** -0.25] * len(shares))
    assert shares
    assert spread() == pytest.approx([(4 * 8) ** -0.25] * 2)
