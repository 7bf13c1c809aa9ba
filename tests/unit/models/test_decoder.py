"""Laws of the language model, for every kind of positions, norm, activation and output."""

import math

import pytest
import torch
from language_models import decoder_config, language_model
from pydantic import ValidationError

import regard
from regard.inspection.capture import watch
from regard.models.base import NoMemory
from regard.models.decoder import LanguageModel
from regard.models.settings import DecoderConfig

VARIANTS = [
    {},
    *({"positions": name} for name in ("sinusoidal", "rotary", "none", "alibi")),
    {"positions": "rotary", "rotary_base": 100.0, "n_kv_heads": 2},
    {"n_kv_heads": 1},
    {"norm": "rms", "activation": "swiglu", "bias": False},
    {"activation": "gelu_tanh", "eps": 1e-3},
    {"tied": False},
    {"norm_first": False},
    {"positions": "index"},
    {"positions": "sinusoidal", "join": "concat"},
    {"join": "concat", "d_positions": 5},
    *({"score": score} for score in ("additive", "general", "content", "location", "dot")),
    {"window": "local_m", "half_width": 3},
    {"window": "local_p", "half_width": 9, "drop_path": 0.4},
    {"score": "additive", "positions": "alibi", "n_kv_heads": 2},
    {"window": "compressed", "n_kv_heads": 2},
    {"windows": ("block", "compressed"), "half_width": 2, "positions": "sinusoidal"},
]
every_variant = pytest.mark.parametrize("changes", VARIANTS, ids=str)


def model_of(**changes):
    return language_model(**changes).double()


@pytest.fixture
def ids(rng):
    return torch.randint(0, 13, (3, 9), generator=rng)


def extended(model, ids, cuts):
    """Logits of the last position of each piece, and the last state."""
    state, logits = model.start(NoMemory(len(ids))), []
    for begin, end in zip((0, *cuts), (*cuts, ids.shape[1]), strict=True):
        last, state = model.prefill(ids[:, begin:end], None, state)
        logits.append(last)
    return torch.stack(logits, dim=1), state


@every_variant
@pytest.mark.parametrize("grad", [True, False])
def test_extending_piece_by_piece_equals_forward(ids, changes, grad):
    model = model_of(**changes)
    full = model(ids).detach()
    for cuts in ((), (4,), tuple(range(1, 9)), (1, 3, 4, 8), (5, 6, 7), (8,)):
        with torch.set_grad_enabled(grad):
            found, state = extended(model, ids, cuts)
        ends = torch.tensor([*cuts, 9]) - 1
        torch.testing.assert_close(found, full[:, ends])
        assert state.length == 9


@every_variant
def test_the_future_has_no_influence(ids, changes):
    model = model_of(**changes)
    full = model(ids)
    for t in range(1, ids.shape[1]):
        other = ids.clone()
        other[:, t:] = (other[:, t:] + 1) % 13
        assert torch.equal(model(other)[:, :t], full[:, :t])


@every_variant
def test_all_of_the_past_has_influence(ids, changes):
    model = model_of(**changes)
    full = model(ids)
    for t in range(ids.shape[1] - 1):
        other = ids.clone()
        other[:, t] = (other[:, t] + 1) % 13
        assert ((model(other)[:, -1] - full[:, -1]).abs().amax(dim=-1) > 1e-9).all()


@every_variant
def test_padding_at_the_end_changes_nothing_before_it(ids, changes):
    model = model_of(**changes)
    padded = torch.cat((ids, torch.full((3, 4), model.config.pad_id)), dim=1)
    torch.testing.assert_close(model(padded)[:, :9], model(ids))


def test_a_token_that_has_the_number_of_padding_is_read_like_any_other(ids):
    """Some public models end their texts with the token that they pad with."""
    model = model_of()
    ids[:, 3] = model.config.pad_id
    other = model_of(pad_id=7)
    assert torch.equal(model(ids), other(ids))


@every_variant
def test_rows_are_strangers(ids, changes):
    model = model_of(**changes)
    together = model(ids)
    for row in range(3):
        torch.testing.assert_close(model(ids[row : row + 1]), together[row : row + 1])


@every_variant
def test_a_state_can_be_repeated_and_reordered(ids, changes):
    model = model_of(**changes)
    _, state = model.prefill(ids[:, :5], None, model.start(NoMemory(3)))
    rows = torch.tensor([2, 0, 0, 1])
    logits, state = model.prefill(ids[rows, 5:], None, state.select(rows))
    torch.testing.assert_close(logits, model(ids)[rows, -1])
    assert state.length == 9


def test_a_state_stays_what_it_was_when_others_go_on_from_it(ids):
    model = model_of(n_kv_heads=2)
    other = (ids + 1) % 13
    with torch.inference_mode():
        _, state = model.prefill(ids[:, :4], None, model.start(NoMemory(3)))
        _, state = model.prefill(ids[:, 4:6], None, state)
        _, ahead = model.prefill(ids[:, 6:7], None, state)
        _, aside = model.prefill(other[:, 6:7], None, state)
        mixed = torch.cat((ids[:, :6], other[:, 6:]), dim=1)
        for text, past in ((ids, ahead), (mixed, aside)):
            found, _ = model.prefill(text[:, 7:], None, past)
            torch.testing.assert_close(found, model(text)[:, -1])


def test_keys_are_kept_once_for_the_heads_that_share_them(ids):
    model = model_of(n_kv_heads=2)
    before = model.start(NoMemory(3))
    _, after = model.prefill(ids, None, before)
    assert {layer.k.shape for layer in before.layers} == {(3, 2, 0, 6)}
    assert {layer.k.shape for layer in after.layers} == {(3, 2, 9, 6)}


def test_a_tied_output_is_the_embedding_and_an_untied_one_is_not(ids):
    tied, apart = model_of(), model_of(tied=False)
    assert tied.output().weight is tied.embedding.tokens.weight
    assert "to_logits.weight" not in dict(tied.named_parameters())
    before = apart.states(ids)
    with torch.no_grad():
        apart.to_logits.weight.zero_()
    assert torch.equal(apart.states(ids), before)
    assert (apart(ids) == 0).all()
    for model in (tied, apart):
        torch.testing.assert_close(model(ids), model.states(ids) @ model.output().weight.T)


def test_positions_are_told_except_by_none(ids):
    """One layer without them sees a bag of words; two know by causality who came before whom."""
    shuffled = ids[:, [1, 0, *range(2, 9)]]
    near = [changes for changes in VARIANTS if changes.get("window") != "local_m"]
    for changes in (
        one for one in near if "windows" not in one
    ):  # a local window does not reach back to what is swapped
        model = model_of(**changes, n_layers=1)
        same = torch.allclose(model(ids)[:, -1], model(shuffled)[:, -1])
        assert same == (changes.get("positions") == "none")


def test_learned_positions_refuse_what_is_longer_than_their_table(ids):
    model = model_of(max_len=6)
    assert model.config.longest == 6
    assert decoder_config(positions="rotary").longest is None
    _, state = model.prefill(ids[:, :6], None, model.start(NoMemory(3)))
    for read in (lambda: model(ids[:, :7]), lambda: model.prefill(ids[:, 6:7], None, state)):
        with pytest.raises(regard.ShapeError, match="know 6 places, but the text has 7 tokens"):
            read()


def test_every_layer_can_be_watched(ids):
    model = model_of(n_kv_heads=2, positions="rotary")
    with watch(model) as views:
        model(ids)
    assert list(views) == [("decoder.self", 0), ("decoder.self", 1), ("decoder.self", 2)]
    weights = views["decoder.self", 1].weights()
    assert weights.shape == (3, 4, 9, 9)
    torch.testing.assert_close(weights.sum(-1), torch.ones(3, 4, 9, dtype=torch.float64))
    assert (weights.triu(1) == 0).all()


def test_it_begins_as_gpt_2_does():
    model = LanguageModel(decoder_config(d_model=96, d_ff=300, n_vocab=500, max_len=64, tied=False))
    for name, parameter in model.named_parameters():
        if parameter.dim() == 1:
            assert (parameter == (0 if name.endswith("bias") else 1)).all()
            continue
        added = name.endswith(("to_out.weight", "outer.weight"))
        std = 0.02 / math.sqrt(6) if added else 0.02
        assert parameter.std().item() == pytest.approx(std, rel=0.05), name


@pytest.mark.slow
@pytest.mark.parametrize("changes", [{}, VARIANTS[5]], ids=str)
def test_it_can_be_traced_whole(ids, changes):
    torch.compiler.reset()
    model = model_of(**changes, n_layers=1)
    traced = torch.compile(model, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(traced(ids), model(ids))


def test_a_configuration_survives_json():
    config = decoder_config(n_kv_heads=2, positions="alibi", tied=False)
    assert DecoderConfig.model_validate_json(config.model_dump_json()) == config


def test_all_impossible_settings_are_told_at_once():
    with pytest.raises(ValidationError) as told:
        decoder_config(d_model=21, n_kv_heads=3, positions="rotary", pad_id=13)
    for part in (
        "d_model=21 is not a multiple of n_heads=4",
        "n_kv_heads=3 does not divide n_heads=4",
        "a head has 5; choose an even",
        "pad_id=13 is not a token of n_vocab=13",
    ):
        assert part in str(told.value)
