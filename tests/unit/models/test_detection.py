"""The detector: cells, queries, anchors and groups."""

import itertools
import math

import numpy as np
import pytest
import torch

from regard.data.worlds.scene_pixels import SHAPES
from regard.data.worlds.scene_pixels import boxes as boxes_of
from regard.data.worlds.scenes import build_scenes
from regard.evaluation.detection import Boxes, ap50
from regard.functional.boxes import to_corners, to_middles
from regard.functional.positions import plane_codes
from regard.inspection.capture import watch
from regard.models.detection import (
    BoxBias,
    DetectionConfig,
    Detector,
    box_codes,
    chances,
)
from regard.training.set_prediction import NO_OBJECT, detection_losses

SIZE = 24


def model(**settings):
    torch.manual_seed(0)
    config = DetectionConfig.model_validate(
        {"d_model": 16, "n_layers": 2, "n_heads": 2, "d_ff": 24, "dropout": 0.0, "n_labels": 3,
         "image_size": SIZE, "patch_size": 8, "n_queries": 5} | settings
    )  # fmt: skip
    return Detector(config).eval()


def pixels(n=2, height=SIZE, width=SIZE):
    rng = torch.Generator().manual_seed(1)
    return torch.randint(0, 256, (n, 3, height, width), dtype=torch.uint8, generator=rng)


def stirred(one):
    """The same with weights that are not zero at the start."""
    torch.manual_seed(3)
    for layer in (
        one.decoder.to_boxes[-1],
        *(b.change for b in getattr(one.decoder, "biases", ())),
    ):
        torch.nn.init.normal_(layer.weight, std=0.2)
    return one


# ------------------------------------------------------------------ what comes out


@pytest.mark.parametrize("queries", ["anchors", "learned"])
@pytest.mark.parametrize("classes", ["sigmoid", "softmax"])
@pytest.mark.parametrize(("height", "width"), [(24, 24), (17, 41), (8, 8), (1, 1)])
def test_shapes_of_any_picture(queries, classes, height, width):
    found = model(queries=queries, classes=classes)(pixels(3, height, width))
    assert found.logits.shape == (2, 3, 5, 3 + (classes == "softmax"))
    assert found.boxes.shape == (2, 3, 5, 4)
    assert ((found.boxes > 0) & (found.boxes < 1)).all()


def test_patches_will_do_in_place_of_convolutions():
    assert model(encoder="patches")(pixels()).boxes.shape == (2, 2, 5, 4)


@pytest.mark.parametrize("queries", ["anchors", "learned"])
def test_a_picture_does_not_depend_on_its_batch(queries):
    one = stirred(model(queries=queries))
    together = one(pixels(3))
    for i in range(3):
        alone = one(pixels(3)[i : i + 1])
        torch.testing.assert_close(alone.logits[:, 0], together.logits[:, i])
        torch.testing.assert_close(alone.boxes[:, 0], together.boxes[:, i])


def test_a_fresh_model_says_its_anchors_and_that_nothing_is_there():
    one = model()
    found = one(pixels())
    expected = one.decoder.anchors.sigmoid().expand(2, 2, 5, 4)
    torch.testing.assert_close(found.boxes, expected)
    assert chances(found.logits, "sigmoid").max() < 0.1


def test_every_layer_moves_the_boxes_of_the_one_before():
    one = stirred(model()).train()
    states = []
    one.decoder.norm.register_forward_hook(lambda _m, _i, out: states.append(out))
    found = one(pixels())
    before = one.decoder.anchors
    for state, boxes in zip(states, found.boxes, strict=True):
        torch.testing.assert_close(boxes.logit(), one.decoder.to_boxes(state) + before)
        before = boxes.logit()


def test_chances_of_labels_leave_no_object_out():
    logits = torch.tensor([[1.0, 2.0, 0.5]])
    powers = [math.exp(x) for x in (1.0, 2.0, 0.5)]
    expected = torch.tensor([[powers[0] / sum(powers), powers[1] / sum(powers)]])
    torch.testing.assert_close(chances(logits, "softmax"), expected)
    torch.testing.assert_close(chances(logits, "sigmoid"), 1 / (1 + torch.exp(-logits)))


# ------------------------------------------------------------------ groups


def test_one_group_is_the_plain_model():
    plain, grouped = stirred(model()), stirred(model(n_groups=3))
    weights = dict(plain.state_dict())
    for name in ("decoder.queries", "decoder.anchors"):
        weights[name] = torch.cat((weights[name], grouped.state_dict()[name][5:]))
    grouped.load_state_dict(weights)
    alone, several = plain(pixels()), grouped(pixels())
    assert torch.equal(alone.boxes, several.boxes)
    assert torch.equal(alone.logits, several.logits)
    trained = grouped.train()(pixels())
    assert trained.boxes.shape == (2, 2, 15, 4)
    torch.testing.assert_close(trained.boxes[:, :, :5], alone.boxes)
    torch.testing.assert_close(trained.logits[:, :, :5], alone.logits)


@pytest.mark.parametrize("queries", ["anchors", "learned"])
def test_groups_do_not_see_each_other(queries):
    one = stirred(model(n_groups=3, queries=queries)).train()
    before = one(pixels())
    with torch.no_grad():
        one.decoder.queries[5:10] += 1.0
        if queries == "anchors":
            one.decoder.anchors[5:10] -= 1.0
    after = one(pixels())
    changed = (after.logits != before.logits).any(dim=-1).any(dim=0).any(dim=0)  # (Q,)
    assert changed.tolist() == [False] * 5 + [True] * 5 + [False] * 5


def test_queries_of_a_group_see_each_other():
    one = stirred(model())
    before = one(pixels())
    with torch.no_grad():
        one.decoder.queries[0] += 1.0
    assert ((one(pixels()).logits != before.logits).any(dim=-1).any(dim=0)).all()


# ------------------------------------------------------------------ where things are


def test_places_join_keys_and_not_values():
    """A picture of one colour has equal values everywhere, so no place changes what is found."""
    one = model(encoder="patches", n_layers=1, queries="learned")
    flat = torch.full((1, 3, SIZE, SIZE), 77, dtype=torch.uint8)
    cells = one.encoder(flat).states[0]
    torch.testing.assert_close(cells, cells[:1].expand_as(cells))
    with watch(one) as views:
        one(flat)
    for name in ("encoder.self", "decoder.cross"):
        assert views[name, 0].weights().std(dim=-1).max() > 1e-4  # but they are not seen alike


def test_codes_say_y_then_x():
    codes = plane_codes(torch.tensor([[0.3, 0.6], [0.3, 0.1]], dtype=torch.float64), 8)
    angles = [2 * math.pi * 0.6 / 10_000 ** (i / 4) for i in (0, 2)]
    expected = [f(angle) for angle in angles for f in (math.sin, math.cos)]
    torch.testing.assert_close(codes[0, :4], torch.tensor(expected))
    assert torch.equal(codes[0, 4:], codes[1, 4:])
    assert not torch.allclose(codes[0, :4], codes[1, :4])
    assert box_codes(torch.rand(2, 5, 4), 8).shape == (2, 5, 16)


def test_the_bias_is_a_gaussian_in_the_box_by_loops(rng):
    B, T, D, H, rows, columns = 2, 3, 6, 2, 3, 5
    bias = BoxBias(D, H)
    torch.nn.init.normal_(bias.change.weight, std=0.3)
    x = torch.randn(B, T, D, generator=rng)
    boxes = 0.2 + 0.5 * torch.rand(B, T, 4, generator=rng)
    found = bias(x, boxes, (rows, columns))
    assert found.shape == (B, H, T, rows * columns)
    shape = bias.shape + bias.change(x).view(B, T, H, 4)
    for b, t, h in itertools.product(range(B), range(T), range(H)):
        cx, cy, w, hh = boxes[b, t].tolist()
        ox, oy, sx, sy = shape[b, t, h].tolist()
        for r, c in itertools.product(range(rows), range(columns)):
            dx = ((c + 0.5) / columns - cx - ox * w) / (w * math.exp(sx))
            dy = ((r + 0.5) / rows - cy - oy * hh) / (hh * math.exp(sy))
            expected = -(dx**2 + dy**2) / 2
            assert found[b, h, t, r * columns + c].item() == pytest.approx(expected, rel=1e-4)


def test_a_fresh_query_looks_at_its_anchor():
    one = model(n_layers=1, image_size=64)
    with torch.no_grad():
        one.decoder.anchors[:] = torch.tensor([0.81, 0.19, 0.1, 0.1]).logit()
    with watch(one) as views:
        one(pixels(1, 64, 64))
    weights = views["decoder.cross", 0].weights().view(2, 5, 8, 8).sum(dim=(0, 1))
    assert divmod(int(weights.argmax()), 8) == (1, 6)


@pytest.mark.parametrize("queries", ["anchors", "learned"])
def test_every_attention_can_be_watched_and_is_not_changed_by_it(queries):
    one = stirred(model(queries=queries))
    plain = one(pixels(1))
    with watch(one) as views:
        watched = one(pixels(1))
    assert torch.equal(plain.logits, watched.logits)
    assert torch.equal(plain.boxes, watched.boxes)
    shapes = {"encoder.self": (9, 9), "decoder.self": (5, 5), "decoder.cross": (5, 9)}
    assert set(views) == {(name, layer) for name in shapes for layer in range(2)}
    for (name, _), view in views.items():
        (seen,) = view.calls
        assert view.weights().shape == (1, 2, *shapes[name])
        torch.testing.assert_close(seen.values(), seen.attended().values)


# ------------------------------------------------------------------ learning


def unmoved(one):
    """Parameters without a gradient; what is added to all keys changes no softmax."""
    moved = {name for name, p in one.named_parameters() if p.grad is not None and p.grad.any()}
    names = {name for name, _ in one.named_parameters()} - moved
    return {name for name in names if not name.endswith("to_k.bias")}


@pytest.mark.parametrize("classes", ["sigmoid", "softmax"])
@pytest.mark.parametrize("norm_first", [False, True])
def test_gradients_reach_all_parameters(classes, norm_first):
    one = stirred(model(classes=classes, norm_first=norm_first, n_groups=2)).train()
    labels = torch.tensor([[0, 2], [1, NO_OBJECT]])
    detection_losses(
        one(pixels()), labels, torch.rand(2, 2, 4) * 0.5 + 0.1, classes=classes, n_groups=2
    ).total.backward()
    assert unmoved(one) == set()


@pytest.mark.parametrize("settings", [{}, {"token_dropout": 0.5}, {"norm_first": True}])
def test_pictures_that_show_nothing_do_not_multiply_the_gradient(settings):
    def norm(side, **settings):
        one = model(n_layers=4, **settings).train()
        torch.manual_seed(5)
        shown = torch.rand(8, 3, side, side).expand(-1, -1, SIZE, SIZE)
        labels = torch.randint(0, 3, (8, 2))
        gold = torch.rand(8, 2, 4) * 0.4 + 0.1
        detection_losses(one(shown), labels, gold, classes="sigmoid").total.backward()
        return torch.nn.utils.get_total_norm([p.grad for p in one.parameters()]).item()

    plain = norm(SIZE)
    assert norm(1, **settings) < 10 * plain
    assert plain / 10 < norm(SIZE, **settings) < 10 * plain


def test_queries_of_the_paper_begin_with_nothing_to_tell_each_other():
    one = model(queries="learned").train()
    labels = torch.tensor([[0, 2], [1, NO_OBJECT]])
    found = one(pixels())
    detection_losses(found, labels, torch.rand(2, 2, 4), classes="sigmoid").total.backward()
    first, parts = "decoder.layers.0", ("to_q.weight", "to_q.bias", "to_k.weight", "to_v.weight")
    of_nothing = {f"{first}.self_attention.{part}" for part in (*parts, "to_out.weight")}
    assert unmoved(one) == {*of_nothing, f"{first}.around_self.norm.weight"}


def test_it_learns_eight_scenes_by_heart():
    records = build_scenes(n_train=8, n_test=1, size=48)["train"]
    kinds = list(SHAPES)
    labels = torch.full((8, 5), NO_OBJECT)
    corners = torch.zeros(8, 5, 4)
    for i, record in enumerate(records):
        n = len(record.scene.objects)
        labels[i, :n] = torch.tensor([kinds.index(one.shape) for one in record.scene.objects])
        corners[i, :n] = torch.from_numpy(boxes_of(record.masks()))
    pictures = torch.from_numpy(np.stack([record.pixels() for record in records]))
    pictures = pictures.permute(0, 3, 1, 2)
    one = model(
        d_model=32, n_heads=4, d_ff=64, n_labels=8, image_size=48, n_queries=8, n_groups=2
    ).train()
    optimiser = torch.optim.AdamW(one.parameters(), lr=3e-3, weight_decay=0.0)
    for step in range(150):
        for group in optimiser.param_groups:
            group["lr"] = 3e-3 * min(1, (step + 1) / 20) * (1 - step / 150)
        losses = detection_losses(
            one(pictures), labels, to_middles(corners), classes="sigmoid", n_groups=2
        )
        (losses.total / losses.counts["classes"]).backward()
        torch.nn.utils.clip_grad_norm_(one.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad()
    with torch.no_grad():
        found = one.eval()(pictures)
    scores, said = chances(found.logits[-1], "sigmoid").max(dim=-1)
    places = to_corners(found.boxes[-1])
    there = [
        Boxes(c[y >= 0].numpy(), y[y >= 0].numpy()) for c, y in zip(corners, labels, strict=True)
    ]
    seen = [Boxes(*(x.numpy() for x in row)) for row in zip(places, said, scores, strict=True)]
    assert ap50(seen, there) > 0.95


# ------------------------------------------------------------------ settings


def test_a_configuration_comes_back_from_json():
    config = model(n_groups=2, classes="softmax").config
    assert DetectionConfig.model_validate_json(config.model_dump_json()) == config


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"positions": "rotary"}, "cells of a picture are told by 'sinusoidal'"),
        ({"window": "local_m"}, "objects have none"),
        ({"windows": ("global", "compressed")}, "'compressed' goes by order"),
        ({"normaliser": "hard"}, "trained by rewards"),
        ({"encoder": "patches", "patch_size": 5}, "not a whole number of patches"),
        ({"n_groups": 0}, "greater than or equal to 1"),
    ],
)
def test_what_cannot_be_built_is_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        model(**settings)


# ------------------------------------------------------------------ a ResNet


RESNET = {"encoder": "resnet", "resnet_depths": (1, 1, 1), "resnet_widths": (8, 10, 12),
          "resnet_stem": 6}  # fmt: skip


@pytest.mark.parametrize("queries", ["anchors", "learned"])
def test_a_resnet_makes_the_cells_that_the_settings_tell(queries):
    one = model(**RESNET, queries=queries, n_decoder_layers=3)
    assert (one.config.cell, one.config.grid) == (16, (2, 2))
    assert one.config.grid_of(17, 41) == (2, 3)
    x = pixels(height=17, width=41)
    assert one.encoder(x).grid == (2, 3)
    assert one(x).boxes.shape == (3, 2, 5, 4)


def test_norms_of_a_resnet_are_kept_and_do_not_learn(tmp_path):
    from regard.checkpoints.run_folder import RunFolder, load_model, model_tensors, save_model

    one = model(**RESNET).train()
    norms = {name: x for name, x in model_tensors(one).items() if ".norm.running" in name}
    assert len(norms) == 2 * (1 + 3 * 2 + 3)  # the stem; two a block; one beside each
    for x in norms.values():
        x.uniform_(0.5, 2.0)
    before = {name: x.clone() for name, x in norms.items()}
    one(pixels()).logits.sum().backward()
    assert all(torch.equal(before[name], x) for name, x in norms.items())
    save_model(RunFolder(tmp_path), one.config, model_tensors(one))
    again = load_model(RunFolder(tmp_path)).eval()
    assert torch.equal(again(pixels()).logits, one.eval()(pixels()).logits)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"resnet_depths": (1, 1)}, "different numbers of stages"),
        ({"resnet_block": "bottleneck", "resnet_widths": (3, 8, 8)}, "of 4 at least"),
    ],
)
def test_a_resnet_that_cannot_be_is_refused(settings, told):
    with pytest.raises(ValueError, match=told):
        model(**RESNET | settings)


def test_sizes_of_a_resnet_are_for_a_resnet():
    from regard.core.errors import ConfigError
    from regard.models.presets import ModelSettings, resolve_for

    asked = ModelSettings(preset="detr2020", resnet_stem=8)
    with pytest.raises(ConfigError, match="resnet_stem would do nothing"):
        resolve_for("detection", DetectionConfig, asked)
    asked = ModelSettings(preset="detr2020", resnet_stem=8, encoder="resnet")
    assert resolve_for("detection", DetectionConfig, asked).resnet_stem == 8
