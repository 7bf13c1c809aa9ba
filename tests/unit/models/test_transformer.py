"""The Transformer: what it is made of, what it knows of order, and what its settings refuse."""

import pytest
import torch
from tiny import tiny_config

import regard
from regard.models.presets import ModelSettings, build, config_from, n_parameters, resolve


@pytest.mark.parametrize("norm_first", [False, True])
def test_each_decoder_layer_may_look_at_the_encoder_layer_of_its_number(
    make_model, source, norm_first
):
    model = make_model(memory="each", norm_first=norm_first)
    mask = model.source_mask(source)
    x = model.encoder.embedding(source)
    for i, found in enumerate(model.encode(source).layers):
        x = model.encoder.layers[i](x, mask)
        wanted = model.decoder.layers[i].cross_attention.project(model.encoder.norm(x))
        assert torch.equal(found.k, wanted.k)
        assert torch.equal(found.v, wanted.v)


def test_positions_may_stand_beside_narrower_tokens(make_model, source, target):
    """Nothing is projected, and the tied output reads the tokens' part of a state."""
    model = make_model(positions="sinusoidal", join="concat", d_positions=5)
    x = model.encoder.embedding(source)
    tokens = model.encoder.embedding.tokens.weight
    assert tokens.shape == (13, 7)
    torch.testing.assert_close(x[..., :7], tokens[source] * 7**0.5)
    assert torch.equal(x[0, :, 7:], x[1, :, 7:])
    torch.testing.assert_close(x[0, 3, 7:9].square().sum().item(), 1.0)
    states = model.states(source, target)
    torch.testing.assert_close(model(source, target), states[..., :7] @ tokens.T)


def test_whole_texts_skip_layers_in_training_alone(make_model, source, target):
    model = make_model(drop_path=0.5)
    assert not model.config.packs
    plain = model(source, target)
    assert torch.equal(model(source, target), plain)
    model.train()
    assert not torch.allclose(model(source, target), plain)


def test_without_positions_the_encoder_does_not_know_order(make_model, source, target):
    shuffled = source[:, torch.tensor([1, 0, 2, 3, 4, 5, 6])]
    blind, seeing = make_model(positions="none"), make_model()
    torch.testing.assert_close(blind(source, target), blind(shuffled, target))
    assert not torch.allclose(seeing(source, target), seeing(shuffled, target))


@pytest.mark.parametrize("positions", ["alibi", "rotary"])
def test_attention_alone_may_know_order(make_model, source, target, positions):
    shuffled = source[:, torch.tensor([1, 0, 2, 3, 4, 5, 6])]
    model = make_model(positions=positions)
    assert not torch.allclose(model(source, target), model(shuffled, target))
    assert model.decoder.layers[0].cross_attention.relative(1, 2, 3) == (1, 2, None)


@pytest.mark.parametrize("positions", ["alibi", "rotary"])
def test_relative_positions_do_not_care_where_a_text_begins(make_model, source, positions):
    """Three tokens that nobody may see, before the text, change nothing of it."""
    encoder = make_model(positions=positions).encoder
    mask = (source != 0)[:, None, None]
    before = torch.full((3, 3), 5)
    hidden = torch.cat((torch.zeros(3, 1, 1, 3, dtype=torch.bool), mask), dim=-1)
    later = encoder(torch.cat((before, source), dim=1), hidden)[:, 3:]
    torch.testing.assert_close(later, encoder(source, mask), rtol=1e-5, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "repeats"),
    [
        ({}, (1, 30)),  # the second time with lengths that are not known
        ({"window": "local_m", "half_width": 2}, (30,)),
        ({"window": "block", "half_width": 8, "positions": "alibi"}, (30,)),
        ({"score": "additive", "positions": "rotary"}, (1,)),
    ],
    ids=str,
)
def test_it_can_be_traced_whole(make_model, source, target, changes, repeats):
    """At lengths for which windows take another kernel than at a few words."""
    torch.compiler.reset()  # there is a limit to what is traced of one function
    model = make_model(**changes, n_layers=1)
    traced = torch.compile(model, fullgraph=True, backend="aot_eager")
    for n in repeats:
        given = source.repeat(1, n), target.repeat(1, n)
        torch.testing.assert_close(traced(*given), model(*given))


@pytest.mark.parametrize(
    "changes",
    [
        {"window": "block"},
        {"window": "local_m"},
        {"windows": ("global", "compressed")},
        {"positions": "alibi"},
        {"positions": "rotary"},
        {"score": "additive"},
        {"normaliser": "hard"},
    ],
    ids=str,
)
def test_what_packed_kernels_cannot_do_is_not_packed(changes):
    assert tiny_config().packs
    assert not tiny_config(**changes).packs


def test_embeddings_are_tied_as_in_the_paper(make_model):
    shared = make_model()
    assert shared.encoder.embedding.tokens is shared.decoder.embedding.tokens
    apart = make_model(shared_vocab=False)
    assert apart.encoder.embedding.tokens is not apart.decoder.embedding.tokens
    assert n_parameters(apart) - n_parameters(shared) == 13 * 12


def test_the_base_model_has_the_papers_size():
    settings = ModelSettings(size="base")
    config = resolve(settings, n_source_vocab=37_000, n_target_vocab=37_000, shared_vocab=True)
    with torch.device("meta"):
        assert n_parameters(build(config)) == pytest.approx(63e6, rel=0.01)


@pytest.mark.parametrize("norm_first", [False, True])
def test_it_equals_torchs_own_layers(make_model, source, target, norm_first):
    """Encoder and decoder layers of torch.nn, given the same weights, give the same vectors."""
    model = make_model(norm_first=norm_first)
    mask = source != 0
    x = model.encoder.embedding(source)
    hidden = ~mask  # torch: True = hidden
    for ours in model.encoder.layers:
        theirs = torch.nn.TransformerEncoderLayer(
            12, 3, 20, 0.0, batch_first=True, norm_first=norm_first, dtype=torch.float64
        ).train()  # eval takes a fast path that fills padding with zeros
        copy_attention(theirs.self_attn, ours.self_attention)
        copy_rest(theirs, ours, ["around_self", "around_feed_forward"])
        x = theirs(x, src_key_padding_mask=hidden)
    encoded = model.encoder.norm(x)
    y = model.decoder.embedding(target)
    for ours in model.decoder.layers:
        theirs = torch.nn.TransformerDecoderLayer(
            12, 3, 20, 0.0, batch_first=True, norm_first=norm_first, dtype=torch.float64
        )
        copy_attention(theirs.self_attn, ours.self_attention)
        copy_attention(theirs.multihead_attn, ours.cross_attention)
        copy_rest(theirs, ours, ["around_self", "around_cross", "around_feed_forward"])
        future = ~torch.ones(6, 6, dtype=torch.bool).tril()
        y = theirs(y, encoded, tgt_mask=future, memory_key_padding_mask=hidden)
    logits = model.decoder.norm(y) @ model.decoder.embedding.tokens.weight.T
    torch.testing.assert_close(model(source, target), logits)


def copy_attention(theirs, ours):
    parts = [ours.to_q, ours.to_k, ours.to_v]
    theirs.in_proj_weight.data = torch.cat([part.weight.data for part in parts])
    theirs.in_proj_bias.data = torch.cat([part.bias.data for part in parts])
    theirs.out_proj.load_state_dict(ours.to_out.state_dict())


def copy_rest(theirs, ours, residuals):
    theirs.linear1.load_state_dict(ours.feed_forward.inner.state_dict())
    theirs.linear2.load_state_dict(ours.feed_forward.outer.state_dict())
    for i, name in enumerate(residuals, start=1):
        getattr(theirs, f"norm{i}").load_state_dict(getattr(ours, name).norm.state_dict())


def test_a_configuration_survives_json():
    config = tiny_config(score="additive", positions="learned")
    assert config_from(config.model_dump(mode="json")) == config


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"d_model": 130}, "d_model=130 is not a multiple of n_heads=4"),
        ({"positions": "index", "join": "add"}, "join must be 'concat'"),
        ({"positions": "alibi", "join": "concat"}, "join no token"),
        ({"positions": "rotary", "d_model": 36}, "a head has 9; choose an even"),
        ({"window": "causal"}, "no future in its source"),
        ({"d_positions": 4}, "join 'concat'"),
        ({"positions": "index", "d_positions": 2}, "d_positions must be 1"),
        ({"join": "concat", "d_positions": 128}, "leaves no room"),
        ({"positions": "rotery"}, "unknown positions 'rotery' .did you mean 'rotary'"),
        ({"preset": "transfromer"}, "did you mean 'transformer'"),
        ({"size": "huge"}, "no size 'huge'; it has tiny, small, base, big"),
    ],
)
def test_impossible_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        resolve(ModelSettings(**settings), n_source_vocab=9, n_target_vocab=9, shared_vocab=True)


def test_learned_positions_refuse_longer_texts(make_model, source, target):
    model = make_model(positions="learned", max_len=6)
    with pytest.raises(regard.ShapeError, match="know 6 places, but the text has 7 tokens"):
        model(source, target)
