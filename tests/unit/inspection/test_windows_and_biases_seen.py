"""What is shown of attentions with a window by positions, a bias, or turned queries and keys."""

import numpy as np
import pytest
import torch
from systems import system

from regard.inspection.capture import place, watch
from regard.inspection.edits import NoPositions, Temperature, edited
from regard.inspection.records import recorded, records
from regard.kernels.call import reference_only

SOURCE = torch.tensor([[5, 6, 7, 8, 9, 2]])
TARGET = torch.tensor([[1, 9, 8, 7, 6, 5, 4]])
every_change = pytest.mark.parametrize(
    "changes",
    [
        {"positions": "alibi"},
        {"positions": "rotary"},
        {"window": "local_m"},
        {"window": "block"},
        {"positions": "alibi", "window": "block", "score": "additive"},
    ],
    ids=str,
)


@every_change
@torch.no_grad()
def test_the_weights_shown_are_the_weights_used(changes):
    model = system("transformer", **changes)
    outputs = {}
    for path, module in model.named_modules():
        if path.endswith("_attention"):
            module.to_out.register_forward_pre_hook(
                lambda _m, inputs, path=path: outputs.__setitem__(place(path), inputs[0])
            )
    with watch(model) as views:
        seen = model(SOURCE, TARGET)
    for where, view in views.items():
        again = (view.weights() @ view.calls[-1].v).transpose(1, 2).flatten(2)
        torch.testing.assert_close(again, outputs[where])
    assert torch.equal(seen, model(SOURCE, TARGET))
    with reference_only():
        torch.testing.assert_close(model(SOURCE, TARGET), seen)


@every_change
def test_scaled_and_biased_scores_over_the_visible_keys_give_the_weights(changes):
    for name, layers in records(system("transformer", **changes), SOURCE, TARGET).items():
        for record in layers:
            told = record.scores * (record.scale or 1.0)
            alibi = changes.get("positions") == "alibi" and name.endswith(".self")
            assert (record.bias is not None) == alibi
            told = told + record.bias if alibi else told
            np.testing.assert_allclose(record.scaled, told, rtol=1e-5)
            powers = np.where(record.visible, np.exp(record.scaled.astype(np.float64)), 0.0)
            total = powers.sum(-1, keepdims=True)
            shares = np.divide(powers, total, out=np.zeros_like(powers), where=total > 0)
            np.testing.assert_allclose(record.weights, shares, atol=1e-6)
            if changes.get("window") == "block":
                t, s = np.indices(record.visible.shape[1:])
                assert not record.visible[:, t // 4 != s // 4].any()


@every_change
@torch.no_grad()
def test_going_step_by_step_leaves_the_same_record(changes):
    model = system("transformer", **changes)
    full = records(model, SOURCE, TARGET)
    with watch(model) as views:
        memory = model.encode(SOURCE)
        state = model.start(memory)
        for t in range(TARGET.shape[1]):
            _, state = model.step(TARGET[:, t], memory, state)
    for (name, layer), view in views.items():
        stepped, record = recorded(view), full[name][layer]
        for part in ("q", "k", "scores", "weights", "outputs"):
            one, other = getattr(stepped, part), getattr(record, part)
            np.testing.assert_allclose(one, other, atol=2e-5, err_msg=f"{name} {part}")
        assert (stepped.visible == record.visible).all()


def test_a_temperature_divides_the_bias_too():
    model = system("transformer", positions="alibi")
    plain = records(model, SOURCE, TARGET)["encoder.self"][0]
    with edited(model, [Temperature(4.0, "encoder.self")]):
        record = records(model, SOURCE, TARGET)["encoder.self"][0]
    np.testing.assert_allclose(record.bias, plain.bias / 4, rtol=1e-6)
    np.testing.assert_allclose(record.scaled, plain.scaled / 4, rtol=1e-5)


@pytest.mark.parametrize("positions", ["alibi", "rotary"])
def test_places_told_in_attention_can_be_removed(positions):
    model = system("transformer", positions=positions).double()
    order = torch.tensor([1, 0, 2, 3, 4, 5])  # a text turned round has the same distances
    with edited(model, [NoPositions()]):
        plain, again = model.encode(SOURCE), model.encode(SOURCE[:, order])
    for one, other in zip(plain.layers, again.layers, strict=True):
        torch.testing.assert_close(one.k, other.k[:, :, order])
    told = model.encode(SOURCE).layers[0].k, model.encode(SOURCE[:, order]).layers[0].k
    assert not torch.allclose(told[0], told[1][:, :, order])
