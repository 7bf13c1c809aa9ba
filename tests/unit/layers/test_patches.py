"""Patches: a strided convolution in other words; positions of one grid serve another."""

import pytest
import torch
import torch.nn.functional as F

from regard.core.errors import ShapeError
from regard.layers.patches import PatchEmbedding, PixelNorm, interpolated
from regard.layers.positions import make_positions


def embedding(positions="none", class_token=False, grid=(2, 3), patch_size=4):
    torch.manual_seed(0)
    n = grid[0] * grid[1] + class_token
    return PatchEmbedding(
        8,
        patch_size=patch_size,
        channels=3,
        grid=grid,
        positions=make_positions(positions, 8, join="add", max_len=n),
        class_token=class_token,
        dropout=0.0,
    )


def test_patches_are_a_strided_convolution():
    layer, pixels = embedding(), torch.randn(2, 3, 8, 12)
    weight = layer.project.weight.view(8, 3, 4, 4)
    expected = F.conv2d(pixels, weight, layer.project.bias, stride=4)
    torch.testing.assert_close(layer(pixels), expected.flatten(2).mT)


def test_patches_hold_their_pixels_row_by_row():
    pixels = torch.arange(2 * 3 * 4 * 6.0).view(2, 3, 4, 6)
    found = embedding(grid=(2, 3), patch_size=2).patches(pixels)
    for b, (i, j) in ((b, (i, j)) for b in range(2) for i in range(2) for j in range(3)):
        tile = pixels[b, :, 2 * i : 2 * i + 2, 2 * j : 2 * j + 2]
        assert torch.equal(found[b, i * 3 + j], tile.flatten())


def test_the_class_token_stands_first_and_knows_its_place():
    layer, pixels = embedding("learned", class_token=True), torch.randn(2, 3, 8, 12)
    torch.nn.init.normal_(layer.class_token)
    found = layer(pixels)
    assert found.shape == (2, 7, 8)
    torch.testing.assert_close(found[0, 0], layer.class_token + layer.positions.table[0])
    patches = layer.project(layer.patches(pixels)) + layer.positions.table[1:]
    torch.testing.assert_close(found[:, 1:], patches)


@pytest.mark.parametrize("class_token", [True, False])
def test_learned_positions_are_interpolated_to_another_grid(class_token):
    layer = embedding("learned", class_token=class_token)
    pixels, n = torch.zeros(1, 3, 16, 24), int(class_token)
    torch.nn.init.zeros_(layer.project.weight)
    torch.nn.init.zeros_(layer.project.bias)
    found = layer(pixels)[0]
    grid = layer.positions.table[n:].view(2, 3, 8).permute(2, 0, 1)[None]
    expected = F.interpolate(grid, size=(4, 6), mode="bilinear")[0].flatten(1).mT
    torch.testing.assert_close(found[n:], expected)
    if class_token:
        torch.testing.assert_close(found[0], layer.positions.table[0] + layer.class_token)


def test_interpolating_to_the_same_grid_changes_nothing():
    table = torch.randn(6, 5)
    torch.testing.assert_close(interpolated(table, (2, 3), (2, 3)), table)


def test_a_picture_of_broken_patches_is_refused():
    with pytest.raises(ShapeError, match="8 × 13 pixels is not a whole number of patches of 4 × 4"):
        embedding()(torch.zeros(1, 3, 8, 13))


def test_bytes_and_shares_are_the_same_pixels():
    norm = PixelNorm((0.5, 0.4, 0.3), (0.2, 0.3, 0.4))
    pixels = torch.randint(0, 256, (2, 3, 4, 4), dtype=torch.uint8)
    expected = (pixels / 255 - norm.mean) / norm.std
    torch.testing.assert_close(norm(pixels), expected)
    torch.testing.assert_close(norm(pixels / 255), expected)
    assert norm.to(torch.bfloat16)(pixels).dtype == torch.bfloat16


@pytest.mark.parametrize("class_token", [False, True])
def test_sinusoidal_positions_say_the_row_and_the_column(class_token):
    layer = embedding("sinusoidal", class_token=class_token)
    plain = embedding("none", class_token=class_token)
    pixels = torch.randn(1, 3, 8, 12)
    codes = (layer(pixels) - plain(pixels))[0]
    if class_token:
        assert not codes[0].any()
    grid = codes[int(class_token) :].view(2, 3, 8)
    torch.testing.assert_close(grid[:, 0, :4], grid[:, 2, :4], atol=1e-6, rtol=0)  # rows
    torch.testing.assert_close(grid[0, :, 4:], grid[1, :, 4:], atol=1e-6, rtol=0)  # columns
    assert len({tuple(row) for row in codes.round(decimals=4).tolist()}) == len(codes)
