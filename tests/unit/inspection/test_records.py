"""Weights shown are weights used: what is recorded gives what the run itself produced."""

from contextlib import nullcontext

import numpy as np
import pytest
import torch
from systems import SYSTEMS, has_blocks, system

from regard.core.errors import ShapeError
from regard.decoding.beam import beam_search
from regard.inspection.capture import viewpoints, watch
from regard.inspection.edits import Ablate, Force, Temperature, edited
from regard.inspection.records import output_weights, recorded, records
from regard.kernels.call import reference_only
from regard.layers.attention import MemoryAttention, MultiHeadAttention
from regard.layers.draw import Account
from regard.layers.viewpoint import Seen, Viewpoint
from regard.models.memory_network import TapeAttention

SOURCE = torch.tensor([[5, 6, 7, 4, 9, 2]])
TARGET = torch.tensor([[1, 8, 9, 10, 4]])
KERNELS = {"fused": nullcontext, "reference": reference_only}

every_system = pytest.mark.parametrize(("name", "changes"), SYSTEMS, ids=str)


def narrow():
    return torch.autocast("cpu", dtype=torch.bfloat16)


@pytest.fixture
def produced(monkeypatch):
    """What attentions gave in the run itself: {their Seen: output} and a list of tapes' recalls."""
    outputs, recalls = {}, []
    values, recall = Seen.values, TapeAttention.recall

    def keep_values(seen):
        outputs[id(seen)] = values(seen)
        return outputs[id(seen)]

    def keep_recall(tape, q, steps):
        recalls.append((tape.view, recall(tape, q, steps)))
        return recalls[-1][1]

    monkeypatch.setattr(Seen, "values", keep_values)
    monkeypatch.setattr(TapeAttention, "recall", keep_recall)
    return outputs, recalls


def outputs_of(model, views, produced):
    """Place -> (H, T, Dv) as the run produced it."""
    outputs, recalls = produced
    found = {}
    for where, module in viewpoints(model):
        tape = [out for view, out in recalls if view is module]
        calls = [outputs.get(id(call)) for call in views[where].calls]
        found[where] = torch.stack(tape, dim=1) if tape else torch.cat(calls, dim=2)[0]
    return {where: one.detach().float().numpy() for where, one in found.items()}


@every_system
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@torch.no_grad()
def test_recomputed_weights_times_values_are_what_the_run_produced(
    name, changes, kernel, precision, produced
):
    model = system(name, **changes)
    context = narrow if precision == "bfloat16" else nullcontext
    tolerance = 2e-2 if precision == "bfloat16" else 1e-5
    with KERNELS[kernel](), context(), watch(model) as views:
        model(SOURCE, TARGET)
    expected = outputs_of(model, views, produced)
    assert set(expected) == set(views)
    for where, view in views.items():
        record = recorded(view)
        again = record.weights @ record.v
        np.testing.assert_allclose(again, expected[where], atol=tolerance, rtol=tolerance)
        np.testing.assert_allclose(record.outputs, again, atol=1e-6)
        assert record.weights.shape == record.visible.shape == record.scores.shape
        assert record.q.shape[1] == record.weights.shape[1]
        assert record.k.shape[1] == record.weights.shape[2]


def edits_of(views):
    """Every edit of every attention of a system, on its own and all together."""
    places = list(views)
    for name, layer in places:
        yield [Ablate(name, layer, 0)]
        yield [Force(name, layer, 0, key=1)]
    yield [Temperature(0.5)]
    yield [Temperature(0.5), *(Force(name, layer, 0, key=1) for name, layer in places)]


@every_system
@pytest.mark.parametrize("kernel", KERNELS)
@torch.no_grad()
def test_an_edited_attention_shows_the_weights_that_it_used(name, changes, kernel, produced):
    model = system(name, **changes)
    with watch(model) as views:
        model(SOURCE, TARGET)
    for edits in edits_of(views):
        produced[1].clear()
        with KERNELS[kernel](), watch(model) as views, edited(model, edits):
            model(SOURCE, TARGET)
        expected = outputs_of(model, views, produced)
        for where, view in views.items():
            record = recorded(view)
            np.testing.assert_allclose(
                record.weights @ record.v, expected[where], atol=1e-5, err_msg=f"{edits} {where}"
            )


HARD = [
    ("transformer", {"dropout": 0.0}),
    ("luong2015", {}),
    ("bahdanau2015", {}),
    ("cheng2016", {}),
    ("convs2s2017", {}),
]


@pytest.mark.parametrize(("name", "changes"), HARD, ids=str)
@pytest.mark.parametrize("stepwise", [False, True])
def test_what_was_drawn_is_what_is_shown(name, changes, stepwise, produced):
    """While it learns, too; and looking at it draws nothing and keeps no second account."""
    model = system(name, normaliser="hard", **changes).train()
    accounts = []
    for module in model.modules():
        if isinstance(module, Account):
            module.register_forward_hook(lambda *_: accounts.append(1))
    torch.manual_seed(3)
    plain = forward(model, stepwise)
    drawn, told = torch.get_rng_state(), len(accounts)
    produced[1].clear()
    torch.manual_seed(3)
    with watch(model) as views:
        assert torch.equal(forward(model, stepwise), plain)
    expected = outputs_of(model, views, produced)
    for where, view in views.items():
        record = recorded(view)
        np.testing.assert_allclose(record.weights, view.weights()[0].numpy(), atol=1e-6)
        np.testing.assert_allclose(record.weights @ record.v, expected[where], atol=1e-5)
    assert torch.equal(torch.get_rng_state(), drawn)
    assert len(accounts) == 2 * told


def forward(model, stepwise):
    if not stepwise:
        return model(SOURCE, TARGET).detach()
    memory = model.encode(SOURCE)
    state, logits = model.start(memory), []
    for t in range(TARGET.shape[1]):
        one, state = model.step(TARGET[:, t], memory, state)
        logits.append(one.detach())
    return torch.stack(logits, dim=1)


def test_narrow_scores_that_tie_are_looked_at_as_the_run_did():
    """256, 256.5 and 257 are one number in bf16: the run took the first of them."""
    attention = MemoryAttention(2, 2, score="dot", normaliser="hard").bfloat16().eval()
    memory = torch.tensor([[[1.0, 0.0], [1.0, 0.5], [1.0, 1.0]]]).bfloat16()
    asks, real = torch.tensor([[[256.0, 1.0]]]).bfloat16(), torch.ones(1, 1, 1, 3).bool()
    with watch(attention) as views:
        out = attention.look(asks, attention.project(memory), mask=real)
    assert torch.equal(out[0, 0], memory[0, 0])
    (view,) = views.values()
    assert view.weights().tolist() == [[[[1.0, 0.0, 0.0]]]]
    assert recorded(view).weights.tolist() == [[[1.0, 0.0, 0.0]]]


@every_system
@torch.no_grad()
def test_weights_of_a_narrow_run_can_be_asked_for_afterwards(name, changes):
    model = system(name, **changes)
    with narrow(), watch(model) as views:
        model(SOURCE, TARGET)
    for view in views.values():
        np.testing.assert_allclose(view.weights()[0], recorded(view).weights, atol=1e-6)


@every_system
def test_the_softmax_of_the_scaled_scores_over_the_visible_keys_is_the_weights(name, changes):
    for layers in records(system(name, **changes), SOURCE, TARGET).values():
        for record in layers:
            if record.scale is not None:
                np.testing.assert_allclose(record.scores * record.scale, record.scaled, rtol=1e-6)
            powers = np.where(record.visible, np.exp(record.scaled.astype(np.float64)), 0.0)
            total = powers.sum(-1, keepdims=True)
            softmax = np.divide(powers, total, out=np.zeros_like(powers), where=total > 0)
            if record.prior is not None:
                softmax = softmax * record.prior
            if "normaliser" in changes and (np.sort(record.weights)[..., -1] == 1).all():
                softmax = (softmax == softmax.max(-1, keepdims=True)) * 1.0  # hard: the best one
            np.testing.assert_allclose(record.weights, softmax, atol=1e-6)


def test_the_scale_of_a_scaled_product_is_one_over_the_root_of_its_width():
    record = records(system("transformer"), SOURCE, TARGET)["decoder.cross"][0]
    assert record.scale == pytest.approx(4**-0.5)
    np.testing.assert_allclose(record.scores, record.q @ record.k.swapaxes(1, 2), rtol=1e-5)
    assert records(system("bahdanau2015"), SOURCE, TARGET)["decoder.cross"][0].scale is None


@pytest.mark.parametrize("name", ["transformer", "bahdanau2015"])
def test_a_temperature_is_part_of_the_scale(name):
    model = system(name)
    plain = records(model, SOURCE, TARGET)["decoder.cross"][0]
    with edited(model, [Temperature(4.0, "decoder.cross")]):
        record = records(model, SOURCE, TARGET)["decoder.cross"][0]
    assert record.scale == pytest.approx((plain.scale or 1.0) / 4)
    np.testing.assert_allclose(record.scaled, record.scores * record.scale, rtol=1e-6)


@every_system
@torch.no_grad()
def test_heads_through_their_part_of_w_o_make_the_modules_output(name, changes):
    model = system(name, **changes)
    outputs, places = {}, {view: where for where, view in viewpoints(model)}
    for module in model.modules():
        if isinstance(module, MultiHeadAttention):
            torch.nn.init.normal_(module.to_out.bias)
            at = places[module.view]
            module.to_out.register_forward_hook(
                lambda m, _i, out, at=at: outputs.__setitem__(at, (out[0], m.bias))
            )
    found = records(model, SOURCE, TARGET)
    assert set(outputs) == set(output_weights(model))
    assert bool(outputs) == has_blocks(name)
    for (attention, layer), (out, bias) in outputs.items():
        record = found[attention][layer]
        heads = np.einsum("htv,hvd->htd", record.outputs, record.to_out)
        np.testing.assert_allclose(heads.sum(0) + bias.numpy(), out.numpy(), atol=1e-5)
    if not has_blocks(name):
        assert all(record.to_out is None for layers in found.values() for record in layers)


@every_system
@torch.no_grad()
def test_a_decoder_that_goes_step_by_step_leaves_the_same_record(name, changes):
    model = system(name, **changes)
    full = records(model, SOURCE, TARGET)
    with watch(model) as views:
        memory = model.encode(SOURCE)
        state = model.start(memory)
        if model.reads_as_one:  # the source is read by the same attentions, and not looked at
            for view in views.values():
                view.calls.clear()
        for t in range(TARGET.shape[1]):
            _, state = model.step(TARGET[:, t], memory, state)
    for (attention, layer), view in views.items():
        stepped, record = recorded(view), full[attention][layer]
        for part in ("q", "k", "v", "scores", "weights", "outputs"):
            one, other = getattr(stepped, part), getattr(record, part)
            np.testing.assert_allclose(one, other, atol=2e-5, err_msg=f"{attention} {part}")
        assert (stepped.visible == record.visible).all()


@every_system
@pytest.mark.parametrize("precision", [nullcontext, narrow])
@torch.no_grad()
def test_watching_changes_no_output_bit(name, changes, precision):
    model = system(name, **changes)
    limits = torch.tensor([7])
    with precision():
        plain = model(SOURCE, TARGET), beam_search(model, SOURCE, limits=limits, n_beams=3)
        with watch(model):
            logits = model(SOURCE, TARGET)
            found = beam_search(model, SOURCE, limits=limits, n_beams=3)
    assert torch.equal(plain[0], logits)
    assert plain[1] == found


@every_system
def test_no_hook_remains_even_after_an_exception(name, changes):
    model = system(name, **changes)
    records(model, SOURCE, TARGET)
    with pytest.raises(IndexError):
        records(model, SOURCE, torch.full((1, 2), 99))
    points = [module for module in model.modules() if isinstance(module, Viewpoint)]
    assert points
    assert not any(point.watched for point in points)


@pytest.mark.parametrize("score", ["scaled_dot", "general", "additive", "content"])
def test_a_model_of_narrow_numbers_can_be_recorded(score):
    model = system("transformer", score=score).bfloat16()
    record = records(model, SOURCE, TARGET)["decoder.cross"][1]
    np.testing.assert_allclose(record.weights.sum(-1), 1, rtol=1e-5)
    assert next(model.parameters()).dtype == torch.bfloat16


@every_system
def test_recording_inside_autocast_rounds_no_weight_itself(name, changes):
    model = system(name, **changes)
    with narrow():
        found = records(model, SOURCE, TARGET)
    for layers in found.values():
        for record in layers:
            if record.prior is None:
                sums = record.weights.sum(-1)
                np.testing.assert_allclose(sums, record.visible.any(-1), atol=1e-6)


def test_a_record_outlives_a_change_of_the_model():
    model = system("transformer")
    record = records(model, SOURCE, TARGET)["decoder.cross"][0]
    before = record.to_out.copy()
    with torch.no_grad():
        model.decoder.layers[0].cross_attention.to_out.weight.zero_()
    assert (record.to_out == before).all()


def test_keys_beyond_the_table_of_location_are_hidden():
    model = system("transformer", score="location", max_len=4)
    record = records(model, SOURCE, TARGET)["decoder.cross"][0]
    assert record.visible[..., :4].all()
    assert not record.visible[..., 4:].any()


def test_a_record_is_of_one_sentence():
    model = system("luong2015")
    with watch(model) as views:
        model(SOURCE.repeat(2, 1), TARGET.repeat(2, 1))
    with pytest.raises(ShapeError, match=r"one sentence, but \[2\]"):
        recorded(views["decoder.cross", 0])


def test_a_record_is_printed_as_shapes():
    record = records(system("transformer"), SOURCE, TARGET)["decoder.cross"][0]
    assert repr(record).startswith("<Record of one attention: q (")
    assert f"weights {record.weights.shape}" in repr(record)
    assert len(repr(record)) < 300
