"""Edits change what they say and nothing else, and leave nothing behind."""

import math

import pytest
import torch
from systems import system
from tiny import tiny_config

from regard.core.errors import ConfigError
from regard.inspection.capture import watch
from regard.inspection.edits import (
    COLDEST,
    HOTTEST,
    Ablate,
    Force,
    NoPositions,
    Temperature,
    edited,
)
from regard.models.transformer import Transformer

SOURCE = torch.tensor([[5, 6, 7, 2], [8, 9, 2, 0]])
TARGET = torch.tensor([[1, 4, 5, 6, 7], [1, 8, 9, 10, 0]])
CROSS = ("decoder.cross", 1)


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Transformer(tiny_config()).double().eval()


def weights(model, edits):
    with edited(model, edits), watch(model) as views:
        logits = model(SOURCE, TARGET)
    return {where: view.weights() for where, view in views.items()}, logits


def test_an_ablated_head_brings_nothing_home(model):
    """As if its columns of W_o were zero."""
    _, logits = weights(model, [Ablate(*CROSS, head=2)])
    assert not torch.allclose(logits, model(SOURCE, TARGET))
    with torch.no_grad():
        model.decoder.layers[1].cross_attention.to_out.weight[:, 8:12] = 0
    torch.testing.assert_close(logits, model(SOURCE, TARGET))


def test_a_forced_head_looks_at_one_key(model):
    found, _ = weights(model, [Force(*CROSS, head=1, key=2)])
    assert torch.equal(found[CROSS][0, 1, :, 2], torch.ones(5).double())
    plain, _ = weights(model, [])
    assert torch.equal(found[CROSS][:, 0], plain[CROSS][:, 0])
    assert found[CROSS][1, 1, :, 2].tolist() == [1.0] * 5  # its end token, no padding


def test_a_temperature_sharpens_or_spreads(model):
    plain, logits = weights(model, [])
    same, again = weights(model, [Temperature(1.0)])
    torch.testing.assert_close(again, logits)
    cold, _ = weights(model, [Temperature(1e-4)])
    hot, _ = weights(model, [Temperature(1e6)])
    for where in (CROSS, ("encoder.self", 0)):
        torch.testing.assert_close(same[where], plain[where])
        assert (cold[where].amax(dim=-1) > 0.99).double().mean() > 0.9
    torch.testing.assert_close(
        hot[CROSS][0], torch.full((3, 5, 4), 0.25).double(), atol=1e-5, rtol=0
    )
    only, _ = weights(model, [Temperature(1e6, name="decoder.cross")])
    torch.testing.assert_close(only["encoder.self", 0], plain["encoder.self", 0])


def test_fused_and_readable_kernels_agree_on_a_tempered_score(model):
    with edited(model, [Temperature(0.5)]):
        fused = model(SOURCE, TARGET)
        with watch(model) as views:
            model(SOURCE, TARGET)
    seen = views["decoder.cross", 0].calls[0]
    torch.testing.assert_close(seen.values(), seen.attended().values)
    assert not torch.allclose(fused, model(SOURCE, TARGET))


def test_nothing_is_left_behind(model):
    before = model(SOURCE, TARGET)
    with pytest.raises(RuntimeError, match="stop"), edited(model, [Ablate(*CROSS, head=0)]):
        raise RuntimeError("stop")
    assert torch.equal(model(SOURCE, TARGET), before)


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (Ablate("decoder.cros", 0, 0), "did you mean 'decoder.cross'"),
        (Ablate("decoder.cross", 7, 0), r"head=0\); known: .*decoder.cross 1"),
        (Ablate("decoder.cross", 0, 3), "heads 0 to 2, not 3"),
        (Force("decoder.cross", 0, 0, 9), "keys 0 to 3, not 9"),
    ],
)
def test_edits_of_what_is_not_there_are_refused(model, edit, words):
    with pytest.raises(ConfigError, match=words), edited(model, [edit]):
        model(SOURCE, TARGET)


@pytest.mark.parametrize("value", [0.0, -1.0, 1e-40, 1e300, math.inf, math.nan])
def test_a_temperature_is_positive_and_leaves_numbers(value):
    with pytest.raises(ConfigError, match=r"from 1e-06 to 1e\+06"):
        Temperature(value)


@pytest.mark.parametrize("value", [COLDEST, HOTTEST])
def test_the_coldest_and_the_hottest_attention_still_give_numbers(model, value):
    found, logits = weights(model.float(), [Temperature(value)])
    assert torch.isfinite(logits).all()
    torch.testing.assert_close(found[CROSS].sum(dim=-1), torch.ones(2, 3, 5))


@pytest.mark.parametrize(
    "changes",
    [{}, {"positions": "learned"}, {"positions": "index"}, {"join": "concat"}],
    ids=str,
)
def test_without_positions_the_encoder_no_longer_knows_order(changes):
    model = Transformer(tiny_config(**changes)).double().eval()
    turned = SOURCE[:1].flip(1)
    with edited(model, [NoPositions()]):
        plain, again = model.encode(SOURCE[:1]), model.encode(turned)
    for one, other in zip(plain.layers, again.layers, strict=True):
        torch.testing.assert_close(one.k, other.k.flip(2))
    told = model.encode(SOURCE[:1]).layers[0].k, model.encode(turned).layers[0].k.flip(2)
    assert not torch.allclose(*told)


def test_positions_that_are_appended_become_zero(make_model):
    model = make_model(positions="index")
    with edited(model, [NoPositions()]):
        found = model(SOURCE, TARGET)
    with torch.no_grad():
        for side in (model.encoder, model.decoder):
            side.embedding.to_model.weight[:, -1] = 0  # what reads the number t
    torch.testing.assert_close(found, model(SOURCE, TARGET))


def test_removing_positions_leaves_nothing_behind(model):
    before = model(SOURCE, TARGET)
    with edited(model, [NoPositions()]):
        assert not torch.allclose(model(SOURCE, TARGET), before)
    assert torch.equal(model(SOURCE, TARGET), before)


@pytest.mark.parametrize(
    ("preset", "changes"), [("luong2015", {}), ("transformer", {"positions": "none"})]
)
def test_positions_that_do_not_exist_cannot_be_removed(preset, changes):
    model = system(preset, **changes)
    with pytest.raises(ConfigError, match="no positions that could be removed"):
        edited(model, [NoPositions()]).__enter__()


def test_a_refused_edit_takes_those_before_it_along(model):
    before = model(SOURCE, TARGET)
    with pytest.raises(ConfigError), edited(model, [NoPositions(), Ablate("nobody", 0, 0)]):
        pass
    assert torch.equal(model(SOURCE, TARGET), before)


def test_a_key_of_the_decoders_own_that_is_not_there_yet_is_hidden(model):
    edit = Force("decoder.self", 0, head=1, key=2)
    with edited(model, [edit]):
        full = model(SOURCE, TARGET)
        memory = model.encode(SOURCE)
        state = model.start(memory)
        for t in range(TARGET.shape[1]):
            logits, state = model.step(TARGET[:, t], memory, state)
            torch.testing.assert_close(logits, full[:, t])


@pytest.mark.parametrize("fusion", ["deep", "shallow"])
@pytest.mark.parametrize("name", ["encoder.self", "decoder.self"])
def test_a_tape_can_be_edited_and_shows_it(name, fusion):
    model = system("cheng2016", fusion=fusion).double()
    with watch(model) as plain:
        logits = model(SOURCE, TARGET)
    for edit in (Ablate(name, 0, 0), Force(name, 0, 0, key=1), Temperature(0.2, name)):
        found, changed = weights(model, [edit])
        assert not torch.allclose(changed, logits)
        assert not torch.allclose(found[name, 0], plain[name, 0].weights())
        if isinstance(edit, Ablate):
            assert (found[name, 0] == 0).all()
        if isinstance(edit, Force):
            wanted = torch.zeros_like(found[name, 0])
            wanted[:, :, 2:, 1] = 1  # before that, it is not there yet
            if name == "encoder.self":
                assert torch.equal(found[name, 0][0], wanted[0])
            else:
                assert torch.equal(found[name, 0], wanted)
    assert torch.equal(model(SOURCE, TARGET), logits)


@pytest.mark.parametrize("name", ["encoder.self", "decoder.self", "decoder.cross"])
def test_an_edited_tape_goes_step_by_step_as_it_goes_at_once(name):
    model = system("cheng2016").double()
    for edit in (Ablate(name, 0, 0), Force(name, 0, 0, key=2), Temperature(0.2, name)):
        with edited(model, [edit]):
            full = model(SOURCE, TARGET)
            memory = model.encode(SOURCE)
            state = model.start(memory)
            for t in range(TARGET.shape[1]):
                logits, state = model.step(TARGET[:, t], memory, state)
                torch.testing.assert_close(logits, full[:, t])


@pytest.mark.parametrize("preset", ["transformer", "luong2015", "cheng2016"])
def test_who_began_to_watch_before_an_edit_sees_the_edit(preset):
    model = system(preset)
    with watch(model) as before, edited(model, [Temperature(0.1)]), watch(model) as after:
        model(SOURCE, TARGET)
    for where, view in before.items():
        assert torch.equal(view.weights(), after[where].weights())
    assert not any(getattr(module, "watched", False) for module in model.modules())


@pytest.mark.parametrize("preset", ["transformer", "cheng2016"])
def test_a_key_that_never_comes_is_no_key_at_all(preset):
    """Not even one that no integer of torch's could count to."""
    model = system(preset)
    found, _ = weights(model, [Force("decoder.self", 0, 0, key=10**30)])
    assert (found["decoder.self", 0][:, 0] == 0).all()
