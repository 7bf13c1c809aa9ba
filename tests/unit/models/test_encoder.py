"""Laws of the encoder, for every position, norm and head; its parts by hand."""

import math

import pytest
import torch
import torch.nn.functional as F
from pydantic import ValidationError

from regard.core.errors import ConfigError, ShapeError
from regard.inspection.capture import watch
from regard.layers.blocks import make_norm
from regard.models.encoder import Encoder
from regard.models.presets import ModelSettings, resolve_for
from regard.models.settings import EncoderConfig

SIZES = {"n_vocab": 13, "d_model": 12, "n_heads": 3, "d_ff": 20, "n_layers": 2, "max_len": 24}
VARIANTS = [
    {},
    {"positions": "sinusoidal"},
    {"positions": "rotary"},
    {"positions": "none"},
    {"norm_first": True},
    {"norm_first": True, "embedding_norm": False, "norm": "rms"},
    {"activation": "swiglu"},
    {"n_segments": 0},
    {"bias": False},
    {"n_layers": 3, "pad_id": 5},
    {"cell": "lstm", "positions": "none", "n_segments": 0},
    {"cell": "gru", "pad_id": 5},
    {"cell": "tanh"},
    {"positions": "alibi"},
    {"positions": "index", "n_segments": 0},
    {"join": "concat"},
    {"join": "concat", "d_positions": 5},
    *({"score": score} for score in ("additive", "general", "content", "location", "dot")),
    {"window": "local_m", "half_width": 3},
    {"window": "compressed"},
    {"window": "local_p", "half_width": 9},
    {"score": "additive", "n_kv_heads": 1, "drop_path": 0.4},
]
HEADS = [
    {"head": "classify", "n_labels": 5},
    {"head": "classify", "n_labels": 5, "pooling": "mean"},
    {"head": "classify", "n_labels": 5, "pooling": "attention"},
    {"head": "masked"},
    {"head": "spans"},
]


def config(**changes):
    return EncoderConfig(**{**SIZES, "dropout": 0.0, **changes})


def encoder(**changes):
    """With weights that are not small: fresh ones would hide what a law is about."""
    model = Encoder(config(**changes)).double().eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return model


@pytest.fixture
def ids(rng):
    """(3, 7), the second row three shorter, for the pad ids 0 and 5."""
    return torch.randint(6, 13, (3, 7), generator=rng)


@pytest.fixture
def segments(rng):
    return torch.randint(0, 2, (3, 7), generator=rng)


def padded(ids, pad, more=0):
    ids = F.pad(ids, (0, more), value=pad)
    ids[1, 4:] = pad
    return ids


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_padding_further_changes_no_real_position(ids, segments, changes):
    model = encoder(**changes)
    pad = model.config.pad_id
    told = segments if model.config.n_segments else None
    short = padded(ids, pad)
    real = short != pad
    states = model.states(short, told)
    more = None if told is None else F.pad(told, (0, 6), value=1)
    torch.testing.assert_close(model.states(padded(ids, pad, 6), more)[:, :7][real], states[real])
    alone = model.states(ids[1:2, :4], None if told is None else told[1:2, :4])
    torch.testing.assert_close(alone[0], states[1, :4])


@pytest.mark.parametrize("changes", HEADS, ids=str)
def test_padding_changes_nothing_that_a_head_gives_for_real_tokens(ids, segments, changes):
    model = encoder(**changes)
    alone = model(ids[1:2, :4], segments[1:2, :4])[0]
    more = F.pad(segments, (0, 3), value=1)
    together = model(padded(ids, 0, 3), more)[1]
    torch.testing.assert_close(together[: len(alone)], alone)


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_every_token_changes_every_position(ids, changes):
    model = encoder(**changes)
    states = model.states(ids)
    for s in range(6 if changes.get("window") == "compressed" else 7):  # whole slots are of 3
        other = ids.clone()
        other[:, s] = 1 + other[:, s] % 4
        assert ((model.states(other) - states).abs().amax(-1) > 1e-6).all()


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_order_is_told_by_positions_or_a_cell_alone(ids, changes):
    model = encoder(**changes)
    order = torch.tensor([3, 0, 6, 1, 5, 2, 4])
    before, after = model.states(ids)[:, order], model.states(ids[:, order])
    told = model.config.positions != "none" or model.config.cell is not None
    assert torch.allclose(before, after) == (not told)


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_watching_changes_nothing(ids, changes):
    model = encoder(**changes)
    plain = model(ids)
    with watch(model) as views:
        assert torch.equal(model(ids), plain)
    assert len(views) == (0 if "cell" in changes else model.config.n_layers)


@pytest.mark.parametrize("head", HEADS, ids=str)
def test_the_masked_head_and_others_read_states_beside_which_positions_stand(ids, head):
    model = encoder(join="concat", d_positions=5, **head)
    assert model.embedding.tokens.embedding_dim == 7
    assert model(ids).isfinite().all()


def test_hard_attention_is_refused_where_nothing_is_looked_across_to():
    with pytest.raises(ValidationError, match="looks at its own text only"):
        config(normaliser="hard")


def test_segments_matter_and_are_zero_where_none_are_given(ids, segments):
    model = encoder()
    states = model.states(ids, segments)
    assert not torch.isclose(model.states(ids, 1 - segments), states).all(-1).any()
    zeros = torch.zeros_like(ids)
    torch.testing.assert_close(model.states(ids), model.states(ids, zeros))


@pytest.mark.parametrize("changes", [{}, *HEADS], ids=str)
def test_segments_matter_to_what_is_given_and_pooled(ids, segments, changes):
    model = encoder(**changes)
    assert not torch.allclose(model(ids, segments), model(ids))
    assert not torch.allclose(model.pooled(ids, segments), model.pooled(ids))


def test_segments_for_a_model_without_are_refused(ids, segments):
    with pytest.raises(ShapeError, match="n_segments"):
        encoder(n_segments=0).states(ids, segments)


def test_pooled_is_the_mean_of_real_tokens(ids, segments):
    model = encoder()
    ids = padded(ids, 0, 2)
    segments = F.pad(segments, (0, 2))
    states, found = model.states(ids, segments), model.pooled(ids, segments)
    for b in range(3):
        rows = [states[b, s] for s in range(9) if ids[b, s] != 0]
        assert len(rows) == (4 if b == 1 else 7)
        torch.testing.assert_close(found[b], sum(rows) / len(rows))


def test_a_text_of_padding_alone_is_no_disaster(ids):
    model = encoder()
    ids[1] = 0
    assert model.states(ids).isfinite().all()
    assert torch.equal(model.pooled(ids)[1], torch.zeros(12, dtype=torch.float64))


def affine(linear, x):
    """A linear layer by loops: x is a list of numbers."""
    rows = zip(linear.weight.tolist(), linear.bias.tolist(), strict=True)
    return [sum(w * a for w, a in zip(row, x, strict=True)) + b for row, b in rows]


def normalised(norm, x):
    """A LayerNorm by its definition."""
    mean = sum(x) / len(x)
    deviation = math.sqrt(sum((a - mean) ** 2 for a in x) / len(x) + norm.eps)
    parts = zip(x, norm.weight.tolist(), norm.bias.tolist(), strict=True)
    return [(a - mean) / deviation * w + b for a, w, b in parts]


def close(found, by_hand):
    torch.testing.assert_close(found, torch.tensor(by_hand, dtype=torch.float64))


@pytest.mark.parametrize("eps", [1e-5, 0.5])
def test_the_embedding_is_token_and_position_and_segment_normalised(ids, segments, eps):
    part = encoder(eps=eps).embedding
    found = part(ids, segments=segments)
    assert found.shape == (3, 7, 12)
    for b, s in ((0, 0), (1, 3), (2, 6)):
        tables = (part.tokens.weight, part.positions.table, part.segments.weight)
        rows = zip(tables, (ids[b, s], s, segments[b, s]), strict=True)
        numbers = zip(*(table[row].tolist() for table, row in rows), strict=True)
        close(found[b, s], normalised(part.norm, [sum(three) for three in numbers]))


def test_sinusoids_are_made_as_small_as_tokens(ids):
    part = encoder(positions="sinusoidal", n_segments=0, embedding_norm=False).embedding
    found = part(ids)
    for s, i in ((0, 0), (0, 1), (5, 4), (6, 7)):
        angle = s / 10000 ** (i // 2 * 2 / 12)
        code = (math.sin if i % 2 == 0 else math.cos)(angle) / math.sqrt(12)
        expected = part.tokens.weight[ids[2, s], i] + code
        torch.testing.assert_close(found[2, s, i], expected, atol=1e-7, rtol=0)


def test_labels_from_the_first_token(ids):
    model = encoder(head="classify", n_labels=5)
    found = model(ids)
    assert found.shape == (3, 5)
    pooler = [math.tanh(x) for x in affine(model.head.dense, model.states(ids)[1, 0].tolist())]
    close(found[1], affine(model.head.to_labels, pooler))


def test_labels_from_the_mean(ids):
    model = encoder(head="classify", n_labels=4, pooling="mean")
    ids = padded(ids, 0)
    found = model(ids)
    assert found.shape == (3, 4)
    close(found[1], affine(model.head.to_labels, model.pooled(ids)[1].tolist()))


def test_labels_from_what_a_learned_query_looks_at(ids):
    """Additive scores, a softmax over the real tokens, and their mixture, by loops."""
    model = encoder(head="classify", n_labels=4, pooling="attention")
    head, ids = model.head, padded(ids, 0)
    with watch(model) as views:
        found = model(ids)
    assert set(views) == {("encoder.self", 0), ("encoder.self", 1), ("encoder.head.pool", 0)}
    states = model.states(ids)[1, :4].tolist()
    learned = {name: weight.tolist() for name, weight in head.pool_attention.score.learned.items()}
    asked = product(learned["w_query"], head.query.tolist())
    scores = []
    for state in states:
        both = zip(asked, product(learned["w_key"], state), strict=True)
        scores.append(
            sum(v * math.tanh(a + b) for v, (a, b) in zip(learned["v"], both, strict=True))
        )
    shares = [math.exp(score) / sum(map(math.exp, scores)) for score in scores]
    close(views["encoder.head.pool", 0].weights()[1, 0, 0], [*shares, 0.0, 0.0, 0.0])
    mixed = [
        sum(w * x for w, x in zip(shares, column, strict=True))
        for column in zip(*states, strict=True)
    ]
    close(found[1], affine(head.to_labels, mixed))


def product(matrix, x):
    """x times a matrix, by loops."""
    return [
        sum(w * a for w, a in zip(column, x, strict=True)) for column in zip(*matrix, strict=True)
    ]


def test_masked_words_through_the_token_matrix(ids):
    model = encoder(head="masked", eps=0.1)
    found = model(ids)
    assert found.shape == (3, 7, 13)
    inner = affine(model.head.dense, model.states(ids)[2, 5].tolist())
    inner = [x * (1 + math.erf(x / math.sqrt(2))) / 2 for x in inner]
    inner = torch.tensor(normalised(model.head.norm, inner), dtype=torch.float64)
    for word in (0, 3, 12):
        logit = inner @ model.embedding.tokens.weight[word] + model.head.bias[word]
        torch.testing.assert_close(found[2, 5, word], logit)


def test_the_loss_may_take_few_positions_of_the_masked_head(ids):
    model = encoder(head="masked")
    chosen = torch.rand(3, 7) < 0.4
    few = F.linear(model.head.transformed(model.states(ids)[chosen]), *model.head.output())
    torch.testing.assert_close(few, model(ids)[chosen])


def test_the_token_matrix_is_counted_once():
    names = dict(Encoder(config(head="masked")).named_parameters())
    assert "embedding.tokens.weight" in names
    assert not any(name.startswith("head.tokens") for name in names)


def test_spans_start_and_end(ids):
    model = encoder(head="spans")
    found = model(ids)
    assert found.shape == (3, 7, 2)
    close(found[0, 4], affine(model.head.to_ends, model.states(ids)[0, 4].tolist()))


def test_without_a_head_the_states_are_given(ids):
    model = encoder()
    assert torch.equal(model(ids), model.states(ids))


@pytest.mark.parametrize("kind", ["layer", "rms"])
@pytest.mark.parametrize("norm_first", [False, True])
def test_where_sub_layers_are_silent_only_the_norms_are_left(ids, norm_first, kind):
    model = encoder(norm_first=norm_first, norm=kind, eps=0.3)
    for layer in model.layers:
        for last in (layer.self_attention.to_out, layer.feed_forward.outer):
            torch.nn.init.zeros_(last.weight)
            torch.nn.init.zeros_(last.bias)
    for name, parameter in model.named_parameters():
        if "around" in name or name.startswith("norm."):
            torch.nn.init.constant_(parameter, 1.0 if name.endswith("weight") else 0.0)
    x = model.embedding(ids)
    norm = make_norm(kind, 12, eps=0.3).double()
    for _ in range(1 if norm_first else 4):
        x = norm(x)
    torch.testing.assert_close(model.states(ids), x)


def test_every_attention_is_in_sight(ids):
    model = encoder()
    with watch(model) as views:
        model(padded(ids, 0))
    assert set(views) == {("encoder.self", 0), ("encoder.self", 1)}
    weights = views["encoder.self", 1].weights()
    assert weights.shape == (3, 3, 7, 7)
    assert (weights[1, ..., 4:] == 0).all()
    torch.testing.assert_close(weights.sum(-1), torch.ones(3, 3, 7, dtype=torch.float64))


@pytest.mark.parametrize("changes", [{}, *HEADS], ids=str)
def test_fresh_weights_begin_as_berts_do(changes):
    model = Encoder(config(n_vocab=500, d_model=48, d_ff=96, max_len=300, **changes))
    deviation = 0.02 * 4  # a sixteenth of BERT's width
    for name, parameter in model.named_parameters():
        if "norm" in name:
            assert (parameter == (1 if name.endswith("weight") else 0)).all(), name
        elif name.endswith("bias"):
            assert (parameter == 0).all(), name
        elif "pool_attention" not in name and name != "head.query":  # as every score begins
            assert parameter.abs().max() <= 2 * deviation, name
            if parameter.numel() > 1000:  # cut at two deviations, 0.88 of the deviation is left
                assert parameter.std().item() == pytest.approx(0.88 * deviation, rel=0.1), name


def test_units_are_dropped_in_training_only(ids):
    model = Encoder(config(dropout=0.3, head="classify", n_labels=3))
    model.train()
    assert not torch.equal(model(ids), model(ids))
    assert not torch.equal(model.embedding(ids), model.embedding(ids))
    states = model.states(ids)
    assert not torch.equal(model.head(states, ids != 0), model.head(states, ids != 0))
    model.eval()
    assert torch.equal(model(ids), model(ids))


@pytest.mark.parametrize("changes", [*HEADS[:3], {**VARIANTS[-2], **HEADS[2]}], ids=str)
def test_it_can_learn(rng, changes):
    model = Encoder(config(**changes))
    ids = torch.randint(1, 13, (8, 7), generator=rng)
    labels = torch.arange(8) % 5
    optimiser = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(120):
        loss = F.cross_entropy(model(ids), labels)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert loss.item() < 0.1


def test_only_learned_positions_end(ids):
    assert config().longest == 24
    with pytest.raises(ShapeError, match="24 places"):
        encoder()(ids.repeat(1, 4))
    for positions in ("sinusoidal", "rotary", "none"):
        assert config(positions=positions).longest is None
        assert encoder(positions=positions)(ids.repeat(1, 4)).isfinite().all()


def test_all_that_does_not_fit_is_told_at_once():
    with pytest.raises(ValidationError) as told:
        config(d_model=14, n_heads=4, positions="rotary", head="classify", pad_id=13)
    for part in ("d_model=14", "n_heads=4", "'rotary'", "needs n_labels", "pad_id=13"):
        assert part in str(told.value)
    with pytest.raises(ValidationError, match="n_labels=3"):
        config(head="spans", n_labels=3)
    with pytest.raises(ValidationError) as told:
        config(cell="gru", d_model=9, n_heads=2, positions="rotary")
    for part in ("'rotary'", "half of d_model=9"):
        assert part in str(told.value)
    assert "n_heads" not in str(told.value).split("[type")[0]


def test_what_does_nothing_beside_a_cell_is_refused_where_a_user_asks_for_it():
    sizes = {"n_vocab": 9, "head": "classify", "n_labels": 2}
    for preset in ("bilstm", "bert"):
        asked = ModelSettings(preset=preset, size="tiny", cell="gru")
        assert resolve_for("classification", EncoderConfig, asked, **sizes).cell == "gru"
        more = asked.model_copy(update={"n_heads": 2, "norm_first": True})
        with pytest.raises(ConfigError, match="n_heads, norm_first would do nothing"):
            resolve_for("classification", EncoderConfig, more, **sizes)
    asked = ModelSettings(preset="bert", size="tiny", n_heads=4)
    assert resolve_for("classification", EncoderConfig, asked, **sizes).n_heads == 4


def test_what_pools_by_attention_begins_with_a_query_of_length_one():
    model = Encoder(
        config(d_model=400, n_heads=4, head="classify", n_labels=2, pooling="attention")
    )
    assert model.head.query.norm().item() == pytest.approx(1.0, rel=0.2)
