import pytest
import torch

from regard.core.errors import ConfigError
from regard.inspection.capture import kept_weights, place, viewpoints, watch
from regard.layers.viewpoint import Viewpoint


@pytest.mark.parametrize("changes", [{}, {"score": "additive"}, {"window": "local_p"}], ids=str)
def test_weights_times_values_are_what_the_run_produced(make_model, source, target, changes):
    model = make_model(**changes)
    outputs = {}
    for path, module in model.named_modules():
        if path.endswith("_attention"):
            module.to_out.register_forward_pre_hook(
                lambda _m, inputs, path=path: outputs.__setitem__(place(path), inputs[0])
            )
    with watch(model) as views:
        model(source, target)
    assert set(views) == {
        (name, layer)
        for name in ("encoder.self", "decoder.self", "decoder.cross")
        for layer in (0, 1)
    }
    for key, view in views.items():
        again = (view.weights() @ view.calls[-1].v).transpose(1, 2).flatten(2)
        torch.testing.assert_close(again, outputs[key])


def test_watching_changes_no_bit_and_leaves_no_hook(model, source, target):
    before = model(source, target)
    with watch(model) as views:
        watched = model(source, target)
    assert torch.equal(before, watched)
    assert len(views["decoder.self", 1].calls) == 1
    model(source, target)
    assert len(views["decoder.self", 1].calls) == 1


def test_no_hook_remains_after_an_exception(model, source):
    with pytest.raises(IndexError), watch(model):
        model(source, torch.full((3, 2), 99))
    points = [module for module in model.modules() if isinstance(module, Viewpoint)]
    assert points
    assert not any(point.watched for point in points)


def test_weights_show_the_masks(model, source, target):
    with watch(model) as views:
        model(source, target)
    cross = views["decoder.cross", 0].weights()
    assert cross.shape == (3, 3, 6, 7)
    assert (cross[1, :, :, 4:] == 0).all()
    assert (views["decoder.self", 0].weights().triu(1) == 0).all()
    torch.testing.assert_close(cross.sum(-1), torch.ones(3, 3, 6, dtype=torch.float64))


def test_kept_weights_are_those_in_use_and_can_be_learned_through(model, source, target):
    with watch(model) as views:
        plain = model(source, target)
    with kept_weights(model, "decoder.cross") as kept:
        again = model(source, target)
    torch.testing.assert_close(again, plain)
    assert sorted(kept) == [layer for name, layer in views if name == "decoder.cross"]
    for layer, calls in kept.items():
        found = torch.cat([one.weights for one in calls], dim=2)
        torch.testing.assert_close(found, views["decoder.cross", layer].weights())
        assert found.requires_grad
    assert not any(view.watched for _, view in viewpoints(model))


def test_views_are_printed_as_a_summary(model, source, target):
    with watch(model) as views:
        assert "<AttentionCalls: 0 calls>" in repr(views)
        model(source, target)
    first, *lines = repr(views).split("\n")
    assert first == "<Views of 6 attentions; views[name, layer].weights():"
    assert "  'decoder.cross', 1: <AttentionCalls: 1 call, weights (3, 3, 6, 7)>" in repr(views)
    assert len(lines) == 6
    for (name, layer), view in views.items():
        assert view.shape == views[name, layer].weights().shape
    shown = "<Seen by one attention: q (3, 3, 6, 4), k (3, 3, 6, 4), v (3, 3, 6, 4), causal>"
    assert repr(views["decoder.self", 0].calls) == f"[{shown}]"
    with watch(torch.nn.Linear(2, 2)) as none:
        pass
    assert "use regard.look(model, tokenizer, text)" in repr(none)
    with pytest.raises(ConfigError, match="use regard.look"):
        none["encoder.self", 0]
