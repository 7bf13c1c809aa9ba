"""Edits change what they say and nothing else, and leave nothing behind."""

import pytest
import torch
from tiny import tiny_config

from regard.core.errors import ConfigError
from regard.inspection.capture import watch
from regard.inspection.edits import Ablate, Force, Temperature, edited
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
        (Ablate("decoder.cross", 7, 0), "known: .*decoder.cross 1"),
        (Ablate("decoder.cross", 0, 3), "heads 0 to 2, not 3"),
        (Force("decoder.cross", 0, 0, 9), "keys 0 to 3, not 9"),
    ],
)
def test_edits_of_what_is_not_there_are_refused(model, edit, words):
    with pytest.raises(ConfigError, match=words), edited(model, [edit]):
        model(SOURCE, TARGET)


def test_a_temperature_is_positive():
    with pytest.raises(ConfigError, match="more than 0"):
        Temperature(0.0)
