"""Laws of the Transformer, for every score, window, position and norm."""

import pytest
import torch
from tiny import tiny_config

import regard
from regard.functional.scores import SCORES
from regard.models.presets import ModelSettings, build, config_from, n_parameters, resolve

VARIANTS = [
    {},
    *({"score": name} for name in SCORES),
    {"window": "local_m", "half_width": 2},
    {"window": "local_p", "half_width": 2},
    {"window": "block", "half_width": 2},
    {"window": "compressed"},
    {"windows": ("global", "compressed"), "score": "additive"},
    {"positions": "learned"},
    {"positions": "learned", "join": "concat"},
    {"positions": "sinusoidal", "join": "concat"},
    {"positions": "index"},
    {"positions": "none"},
    {"positions": "alibi"},
    {"positions": "rotary"},
    {"positions": "alibi", "window": "local_m", "half_width": 2},
    {"positions": "rotary", "score": "additive"},
    {"norm_first": True},
    {"bias": False},
    {"shared_vocab": False, "n_source_vocab": 17},
    {"memory": "each"},
    {"memory": "each", "norm_first": True, "cross_after": "feed_forward"},
    {"cross_after": "feed_forward"},
    {"n_kv_heads": 1, "norm": "rms", "eps": 1e-3},
    {"positions": "sinusoidal", "join": "concat", "d_positions": 5},
    {"positions": "learned", "join": "concat", "d_positions": 4, "tied_output": False},
    {"positions": "index", "d_positions": 1},
]


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_stepping_equals_forward(make_model, source, target, changes):
    model = make_model(**changes)
    memory = model.encode(source)
    state = model.start(memory)
    full = model(source, target)
    for t in range(target.shape[1]):
        logits, state = model.step(target[:, t], memory, state)
        torch.testing.assert_close(logits, full[:, t])


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_the_future_does_not_leak(make_model, source, target, changes):
    model = make_model(**changes)
    full = model(source, target)
    for t in range(1, target.shape[1]):
        other = target.clone()
        other[:, t:] = 4 + (other[:, t:] - 3) % 9
        assert torch.equal(model(source, other)[:, :t], full[:, :t])


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_the_past_does_matter(make_model, source, target, changes):
    """Each position but the first of a text, or of a block, is changed by the token before it.

    In slots it is, unless that token is the first of a slot.
    """
    model = make_model(**changes)
    full = model(source, target)
    unseen = {"block": (4, 0), "compressed": (3, 1)}.get(changes.get("window"), (1, 1))
    for t in range(1, target.shape[1]):
        if t % unseen[0] == unseen[1]:
            continue
        other = target.clone()
        other[:, t - 1] = 4 + (other[:, t - 1] - 3) % 9
        assert not torch.allclose(model(source, other)[:, t], full[:, t])


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_padding_changes_no_real_position(make_model, source, target, changes):
    model = make_model(**changes)
    alone = model(source[1:2, :4], target[1:2])
    torch.testing.assert_close(model(source, target)[1:2], alone)


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_rows_are_strangers(make_model, source, target, changes):
    model = make_model(**changes)
    together = model(source, target)
    for row in range(3):
        torch.testing.assert_close(
            model(source[row : row + 1], target[row : row + 1]), together[row : row + 1]
        )


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_the_source_matters_at_every_position(make_model, source, target, changes):
    model = make_model(**changes)
    other = source.clone()
    other[0, 1] = 4 + (other[0, 1] - 3) % 9
    difference = (model(other, target) - model(source, target)).abs().amax(dim=-1)  # (B, T)
    near = slice(0, 4) if changes.get("window") in ("local_m", "block") else slice(None)
    assert (difference[0, near] > 0).all()
    assert (difference[1:] == 0).all()


def test_state_and_memory_can_be_repeated_and_reordered(model, source, target):
    memory = model.encode(source)
    state = model.start(memory)
    _, state = model.step(target[:, 0], memory, state)
    rows = torch.tensor([2, 0, 0, 1])
    logits, _ = model.step(target[rows, 1], memory.select(rows), state.select(rows))
    torch.testing.assert_close(logits, model(source, target)[rows, 1])


def test_a_state_stays_what_it_was_when_others_go_on_from_it(model, source, target):
    """Branches write into room that they share, each its own token."""
    with torch.inference_mode():
        memory = model.encode(source)
        state = model.start(memory)
        for t in range(3):
            _, state = model.step(target[:, t], memory, state)
        other = 4 + (target - 3) % 9
        ahead, further = model.step(target[:, 3], memory, state)
        aside, elsewhere = model.step(other[:, 3], memory, state)
        torch.testing.assert_close(ahead, model(source, target)[:, 3])
        mixed = torch.cat((target[:, :3], other[:, 3:]), dim=1)
        torch.testing.assert_close(aside, model(source, mixed)[:, 3])
        for written, past in ((target, further), (mixed, elsewhere)):
            found, _ = model.step(written[:, 4], memory, past)
            torch.testing.assert_close(found, model(source, written)[:, 4])


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
