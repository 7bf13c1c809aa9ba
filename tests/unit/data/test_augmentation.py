"""Augmentation: each change is what its name says; a batch's examples decide all chance."""

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps

from regard.data import augmentation
from regard.data.augmentation import (
    CHANGES,
    MOVES,
    Augmentation,
    AugmentSettings,
    affine_maps,
    cut_out,
    mixed,
    moved,
    placed,
    randaugmented,
    shifted,
)


def pixels(n=8, size=16):
    rng = torch.Generator().manual_seed(0)
    rough = torch.rand(n, 3, 4, 4, generator=rng)
    smooth = torch.nn.functional.interpolate(rough, size=size, mode="bicubic").clamp(0, 1)
    return (smooth * 255).round().to(torch.uint8)


def shares(n=8, size=16):
    return pixels(n, size).float() / 255


ALL = AugmentSettings(
    crop=2,
    flip=True,
    flip_down=True,
    zoom=0.5,
    colour=0.4,
    randaugment=2,
    magnitude=9,
    mixup=0.8,
    cutmix=1.0,
)


def test_nothing_is_changed_where_nothing_is_asked():
    found = Augmentation(AugmentSettings(), 0)(pixels(), [3])
    assert torch.equal(found.pixels, shares())
    assert found.partners.tolist() == list(range(8))
    assert (found.shares == 1).all()


def test_the_examples_of_the_batch_decide():
    one = Augmentation(ALL, 1)
    first, again, other = one(pixels(), [5, 1]), one(pixels(), [5, 1]), one(pixels(), [1, 5])
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not torch.equal(first.pixels, other.pixels)
    assert not torch.equal(first.pixels, Augmentation(ALL, 2)(pixels(), [5, 1]).pixels)
    torch.manual_seed(9)
    torch.rand(3)
    assert torch.equal(one(pixels(), [5, 1]).pixels, first.pixels)  # no other chance is in it


@pytest.mark.parametrize("number", range(20))
def test_pixels_stay_between_black_and_white(number):
    found = Augmentation(ALL, 0)(pixels(), [number])
    assert found.pixels.shape == (8, 3, 16, 16)
    assert found.pixels.isfinite().all()
    assert found.pixels.min() >= -1e-6
    assert found.pixels.max() <= 1 + 1e-6
    assert ((found.shares >= 0) & (found.shares <= 1)).all()


def test_half_of_the_pictures_are_mirrored():
    many = pixels(4).repeat(100, 1, 1, 1)
    found = Augmentation(AugmentSettings(flip=True), 0)(many, [0]).pixels
    whole = many.float() / 255
    mirrored = (found == whole.flip(3)).flatten(1).all(dim=1)
    assert ((found == whole).flatten(1).all(dim=1) | mirrored).all()
    assert 140 < mirrored.sum() < 260


def test_pictures_are_shifted_and_mirrored_at_the_edge():
    x = shares()
    down, right = np.random.default_rng(4).integers(0, 7, (2, 8))
    found = shifted(x, 3, torch.from_numpy(down - 3), torch.from_numpy(right - 3))
    for i in range(8):
        padded = np.pad(x[i].numpy(), ((0, 0), (3, 3), (3, 3)), mode="reflect")
        expected = padded[:, down[i] : down[i] + 16, right[i] : right[i] + 16]
        assert np.array_equal(found[i].numpy(), expected)
    assert len({*down.tolist()}) > 2


def test_a_part_is_cut_out_and_enlarged():
    x = shares(2)
    sides, corners = torch.tensor([[0.5, 0.5], [1.0, 1.0]]), torch.tensor([[0.25, 0.5], [0.0, 0.0]])
    found = cut_out(x, sides, corners)
    part = Image.fromarray((x[0].permute(1, 2, 0) * 255).round().byte().numpy())
    part = part.resize((16, 16), Image.Resampling.BILINEAR, box=(4, 8, 12, 16))
    apart = (found[0] - torch.from_numpy(np.array(part)).permute(2, 0, 1) / 255).abs()
    assert apart[:, 1:-1, 1:-1].max() < 0.02  # at its edge Pillow sees no more than the part
    torch.testing.assert_close(found[1], x[1])


@pytest.mark.parametrize(
    "settings", [{"flip": True}, {"flip_down": True}, {"crop": 3}, {"zoom": 0.4}, {}, "all"]
)
def test_placements_say_where_everything_was(settings):
    """A picture whose colours are its own places says where each pixel came from."""
    names = {"flip": True, "flip_down": True, "crop": 3, "zoom": 0.4}
    settings = AugmentSettings(**(names if settings == "all" else settings))
    size = 64
    share = (torch.arange(size) + 0.5) / size
    x = torch.stack((share.expand(size, size), share[:, None].expand(size, size)))  # (2, H, W)
    x = torch.cat((x, torch.zeros(1, size, size))).expand(8, -1, -1, -1)
    found, placements = placed(x, settings, Augmentation(settings, 5).draw([1], 8))
    a, b = placements.unbind(-1)
    for axis, place in enumerate((share, share[:, None])):
        was = a[:, axis, None, None] * place + b[:, axis, None, None]
        inside = ((was > 0.1) & (was < 0.9)).expand(8, size, size)  # what is outside is mirrored
        assert inside.float().mean() > 0.5
        apart = (found[:, axis] - was).abs()[inside]
        assert apart.max() < 0.002
    given = Augmentation(settings, 5)((255 * x).byte(), [1])
    torch.testing.assert_close(given.placements, placements)


def test_upside_down_is_upside_down():
    found = Augmentation(AugmentSettings(flip_down=True), 0)(pixels(64), [0])
    turned = found.placements[:, 1, 0] < 0
    assert 15 < turned.sum() < 50
    assert torch.equal(found.pixels[turned], shares(64)[turned].flip(2))
    assert torch.equal(found.pixels[~turned], shares(64)[~turned])


def by_pillow(change, x, amount):
    """The change done by Pillow, one picture at a time."""
    found = []
    for one in x:
        picture = Image.fromarray((one.permute(1, 2, 0) * 255).round().byte().numpy())
        found.append(np.asarray(change(picture, amount)))
    return torch.from_numpy(np.stack(found)).permute(0, 3, 1, 2) / 255


@pytest.mark.parametrize("amount", [0.3, 1.0, 1.6])
@pytest.mark.parametrize(
    ("name", "enhancer"),
    [
        ("brightness", ImageEnhance.Brightness),
        ("contrast", ImageEnhance.Contrast),
        ("saturation", ImageEnhance.Color),
        ("sharpness", ImageEnhance.Sharpness),
    ],
)
def test_tones_are_those_of_pillow(name, enhancer, amount):
    expected = by_pillow(lambda p, by: enhancer(p).enhance(by), shares(), amount)
    by = torch.full((8, 1, 1, 1), amount)
    found = augmentation.TONES[name](shares(), by).clamp(0, 1)
    assert (found - expected).abs().max() < 2.6 / 255


@pytest.mark.parametrize(
    ("name", "change", "by", "amount"),
    [
        ("posterise", ImageOps.posterize, 0.5, 6),
        ("solarise", ImageOps.solarize, 0.4, 153),
        ("autocontrast", lambda p, _: ImageOps.autocontrast(p), 0.0, 0),
        ("equalise", lambda p, _: ImageOps.equalize(p), 0.0, 0),
    ],
)
def test_reductions_are_those_of_pillow(name, change, by, amount):
    x = shares(size=96)
    expected = by_pillow(change, x, amount)
    found = augmentation.REDUCTIONS[name](x, torch.full((8, 1, 1, 1), by))
    apart = (found.clamp(0, 1) - expected).abs()
    assert apart.mean() < (0.02 if name == "equalise" else 0.004)  # Pillow's counts are integers


@pytest.mark.parametrize("name", MOVES)
def test_a_move_and_its_opposite_leave_the_middle_where_it_was(name):
    large = torch.nn.functional.interpolate(shares(2), size=64, mode="bilinear")
    which = torch.full((2,), CHANGES.index(name))
    there, back = (affine_maps(which, torch.full((2,), by)) for by in (0.5, -0.5))
    found = moved(moved(large, there), back)
    assert (found - large)[:, :, 24:40, 24:40].abs().max() < 0.05
    assert (moved(large, there) - large).abs().max() > 0.1
    assert torch.allclose(moved(large, affine_maps(which, torch.zeros(2))), large, atol=1e-5)


def test_every_change_of_randaugment_is_drawn():
    x = shares(4).repeat(64, 1, 1, 1)
    drawn = Augmentation(AugmentSettings(randaugment=1), 0).draw([0], len(x))
    found = randaugmented(x, 0.9, drawn["changes"][0], drawn["signs"][0])
    same = (found == x).flatten(1).all(dim=1)
    assert 0.02 < same.float().mean() < 0.35  # the identity, and what is equalised already
    assert len(CHANGES) == 14


@pytest.mark.parametrize("kind", ["mixup", "cutmix"])
def test_labels_are_shared_as_pixels_are(kind):
    """Pictures of one colour each: the colour of a mixture tells the share."""
    n = 64
    tones = torch.linspace(0, 1, n).view(n, 1, 1, 1).expand(n, 3, 16, 16)
    settings = AugmentSettings(**{kind: 1.0})
    found = mixed(tones, settings, Augmentation(settings, 0).draw([0], n))
    own, other = tones[:, 0, 0, 0], tones[found.partners, 0, 0, 0]
    expected = found.shares * own + (1 - found.shares) * other
    torch.testing.assert_close(found.pixels.mean(dim=(1, 2, 3)), expected, atol=1e-5, rtol=1e-5)
    assert found.shares.std() > 0.1
    if kind == "cutmix":
        tones_seen = [len(one.unique()) for one in found.pixels]
        assert max(tones_seen) == 2


def test_a_lone_picture_has_no_partner():
    settings = AugmentSettings(mixup=1.0)
    found = mixed(shares(1), settings, Augmentation(settings, 0).draw([0], 1))
    assert torch.equal(found.pixels, shares(1))
    assert found.shares.tolist() == [1.0]


def test_settings_are_bounded():
    with pytest.raises(ValueError, match="less than or equal to 10"):
        AugmentSettings(magnitude=11)
    assert not AugmentSettings(flip=True).mixes
    assert AugmentSettings(cutmix=0.5).mixes


@pytest.mark.parametrize("name", CHANGES)
def test_one_change_of_randaugment_is_that_change(name):
    """All are computed and one is taken: it is the one that was drawn, whatever the others do."""
    x, which = shares(6), torch.full((6,), CHANGES.index(name))
    signs = torch.tensor([1.0, -1.0, 1.0, 1.0, -1.0, -1.0])
    found = randaugmented(x, 0.5, which, signs)
    by = signs.view(-1, 1, 1, 1)
    if name == "identity":
        expected = x
    elif name in augmentation.TONES:
        expected = augmentation.TONES[name](x, 1 + 0.45 * by).clamp(0, 1)
    elif name in augmentation.REDUCTIONS:
        expected = augmentation.REDUCTIONS[name](x, 0.5 * by.abs()).clamp(0, 1)
    else:
        expected = moved(x, affine_maps(which, 0.5 * signs))
    torch.testing.assert_close(found, expected)


def test_what_is_done_needs_nothing_of_the_host():
    """The same code for every draw: traced once, it does what another batch's draws say."""
    one = Augmentation(ALL, 3)
    first, second = (one.draw([number], 8) for number in (1, 2))
    traced = torch.fx.experimental.proxy_tensor.make_fx(
        lambda x, draws: one.apply(x, draws).pixels
    )(pixels(), first)
    torch.testing.assert_close(traced(pixels(), second), one(pixels(), [2]).pixels)


class NothingFromTheHost(torch.overrides.TorchFunctionMode):
    """What a recorded graph of kernels cannot contain: copies from the host and to it."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        assert func not in {
            torch.tensor,
            torch.as_tensor,
            torch.from_numpy,
            torch.Tensor.new_tensor,
            torch.Tensor.item,
            torch.Tensor.tolist,
        }
        return func(*args, **(kwargs or {}))


def test_no_number_travels_from_the_host_while_pictures_are_changed():
    one = Augmentation(ALL, 3)
    draws = one.draw([1], 8)
    with NothingFromTheHost():
        one.apply(pixels(), draws)
