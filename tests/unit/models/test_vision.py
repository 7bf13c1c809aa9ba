"""The Vision Transformer: an assembly of encoder blocks over patches."""

import pytest
import torch

from regard.core.errors import ConfigError
from regard.core.settings import parse
from regard.models.presets import ModelSettings, n_parameters, resolve_for
from regard.models.vision import VisionConfig, VisionTransformer


def model(**settings):
    torch.manual_seed(0)
    config = VisionConfig.model_validate(
        {"d_model": 16, "n_layers": 2, "n_heads": 2, "d_ff": 32, "dropout": 0.0, "image_size": 16,
         "patch_size": 4, "n_labels": 3} | settings
    )  # fmt: skip
    return VisionTransformer(config).eval()


def pixels(n=2, size=16):
    rng = torch.Generator().manual_seed(1)
    return torch.randint(0, 256, (n, 3, size, size), dtype=torch.uint8, generator=rng)


@pytest.mark.parametrize(
    ("width", "heads", "millions"), [(192, 3, 5.5), (384, 6, 21.7), (768, 12, 85.8)]
)
def test_as_many_parameters_as_in_the_papers(width, heads, millions):
    sizes = {"d_model": width, "n_heads": heads, "d_ff": 4 * width, "n_layers": 12}
    with torch.device("meta"):
        config = VisionConfig.model_validate({**sizes, "patch_size": 16, "image_size": 224})
        assert n_parameters(VisionTransformer(config)) / 1e6 == pytest.approx(millions, rel=0.01)


def test_a_fresh_model_says_every_label_alike():
    assert torch.equal(model()(pixels()), torch.zeros(2, 3))


def test_a_length_of_texts_is_refused_unless_a_table_of_places_has_it():
    asked = {"preset": "vit2021", "max_len": 99}
    with pytest.raises(ConfigError, match="^model: max_len would do nothing in this model"):
        resolve_for("image_classification", VisionConfig, parse(ModelSettings, asked, "model"))
    asked |= {"score": "location"}
    found = resolve_for("image_classification", VisionConfig, parse(ModelSettings, asked, "model"))
    table = VisionTransformer(found).encoder.layers[0].self_attention.score.table
    assert table.shape[1] == 99


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_a_picture_does_not_depend_on_its_batch(pooling):
    one = model(pooling=pooling)
    torch.nn.init.normal_(one.to_labels.weight)
    together = one(pixels(3))
    for i in range(3):
        torch.testing.assert_close(one(pixels(3)[i : i + 1])[0], together[i])


def test_a_label_is_read_from_the_class_token_or_from_the_mean():
    states = model().encoder(pixels())
    assert states.shape == (2, 17, 16)
    torch.testing.assert_close(model().pooled(pixels()), states[:, 0])
    mean = model(pooling="mean")
    assert mean.encoder(pixels()).shape == (2, 16, 16)
    torch.testing.assert_close(mean.pooled(pixels()), mean.encoder(pixels()).mean(dim=1))


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"norm_first": False},
        {"n_layers": 1},
        {"n_kv_heads": 1},
        {"positions": "rotary"},
        {"positions": "alibi"},
        {"score": "additive"},
        {"score": "location"},
        {"window": "local_m", "half_width": 3},
        {"window": "local_p", "half_width": 3},
        {"window": "block", "half_width": 2},
        {"windows": ("block", "compressed"), "half_width": 2},
        {"window": "causal"},
        {"pooling": "mean"},
    ],
)
def test_while_it_learns_the_last_layer_leaves_out_only_what_nobody_reads(settings):
    one = model(**settings)
    torch.nn.init.normal_(one.to_labels.weight)
    torch.testing.assert_close(one.train()(pixels()), one.eval()(pixels()))


def test_the_last_layer_feeds_the_class_token_alone_while_it_learns():
    one, widths = model(), []
    for layer in one.encoder.layers:
        layer.feed_forward.register_forward_hook(lambda _m, x, _y: widths.append(x[0].shape[1]))
    one.eval()(pixels())
    one.train()(pixels())
    assert widths == [17, 17, 17, 1]


def test_in_half_precision_the_stream_is_half_as_wide():
    one, types = model(), set()
    for layer in one.encoder.layers:
        layer.register_forward_hook(lambda _m, x, _y: types.add(x[0].dtype))
    torch.nn.init.normal_(one.to_labels.weight)
    wanted = one(pixels())
    assert types == {torch.float32}
    with torch.autocast("cpu", torch.bfloat16):
        found = one(pixels()).float()
    assert types == {torch.float32, torch.bfloat16}
    assert (found - wanted).norm() / wanted.norm() < 0.02
    assert not torch.equal(found, wanted)


def test_without_positions_patches_may_change_places():
    one = model(positions="none", pooling="mean")
    tiles = pixels().unflatten(2, (4, 4)).unflatten(4, (4, 4))
    moved = tiles.flip(2).flatten(4, 5).flatten(2, 3)
    torch.testing.assert_close(one.pooled(moved), one.pooled(pixels()))
    placed = model(pooling="mean")
    torch.nn.init.normal_(placed.encoder.embedding.positions.table)
    assert not torch.allclose(placed.pooled(moved), placed.pooled(pixels()), atol=1e-3)


@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "rotary", "alibi", "none"])
@pytest.mark.parametrize("size", [16, 32])
def test_other_sizes_are_read_too(positions, size):
    assert model(positions=positions)(pixels(size=size)).shape == (2, 3)


@pytest.mark.parametrize(
    "settings",
    [{"score": "additive"}, {"score": "content"}, {"window": "local_m"}, {"window": "block"}],
)
def test_blocks_take_every_part_of_the_algebra(settings):
    one = model(**settings).train()
    torch.nn.init.normal_(one.to_labels.weight)
    one(pixels()).sum().backward()
    assert all(p.grad is not None for p in one.parameters())


def test_a_configuration_comes_back_from_json():
    config = model(pixel_mean=(0.1, 0.2, 0.3)).config
    assert VisionConfig.model_validate_json(config.model_dump_json()) == config


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"patch_size": 5}, "not a whole number of patches of 5"),
        ({"positions": "index"}, "positions are added to patches"),
        ({"normaliser": "hard"}, "normaliser 'hard' draws one key"),
    ],
)
def test_what_cannot_be_built_is_refused(settings, message):
    with pytest.raises((ConfigError, ValueError), match=message):
        model(**settings)
