"""Patches for a Vision Transformer: a picture becomes a sentence.

A picture (C, H, W) is cut into squares of P × P pixels, row by row from the top left. Each square
is laid out flat and projected; a learned vector for the whole picture is put in front, and
positions are added.

    to_patches(pictures, size)        (B, C, H, W) -> (B, N, C·P·P), N = (H/P)·(W/P)
    from_patches(patches, size, height, width)     the way back
    embed(patches, w, b, first, positions)         (B, N, C·P·P) -> (B, N + 1, D)

The numbers of a patch run through its channels, then its rows, then its columns.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from regard.practice.sheet import Arguments, Sheet

sheet = Sheet()


@sheet.blank(
    "View H as (H/P, P) and W as (W/P, P): six axes, (B, C, H/P, P, W/P, P).",
    "Bring them into the order B, H/P, W/P, C, P, P with permute(0, 2, 4, 1, 3, 5), then flatten.",
)
def to_patches(pictures: Tensor, size: int) -> Tensor:
    """pictures (B, C, H, W), P = size divides H and W -> (B, N, C·P·P), patches row by row."""
    B, C, H, W = pictures.shape
    cut = pictures.view(B, C, H // size, size, W // size, size)
    return cut.permute(0, 2, 4, 1, 3, 5).reshape(B, -1, C * size * size)


@sheet.blank(
    "View the patches as (B, H/P, W/P, C, P, P), the six axes of to_patches in their new order.",
    "permute(0, 3, 1, 4, 2, 5) brings back B, C, H/P, P, W/P, P.",
)
def from_patches(patches: Tensor, size: int, height: int, width: int) -> Tensor:
    """patches (B, N, C·P·P) of pictures of height × width -> (B, C, H, W)."""
    B = len(patches)
    cut = patches.view(B, height // size, width // size, -1, size, size)
    return cut.permute(0, 3, 1, 4, 2, 5).reshape(B, -1, height, width)


@sheet.blank(
    "Project all patches (patches @ w + b), then put `first` before each picture's patches.",
    "first.expand(B, 1, D) and torch.cat(…, dim=1); positions are added to all N + 1 vectors.",
)
def embed(patches: Tensor, w: Tensor, b: Tensor, first: Tensor, positions: Tensor) -> Tensor:
    """patches (B, N, C·P·P) -> (B, N + 1, D).

    w is (C·P·P, D), b and first are (D,), positions (N + 1, D).
    """
    projected = patches @ w + b
    before = first.expand(len(patches), 1, -1)
    return torch.cat((before, projected), dim=1) + positions


# ------------------------------------------------------------------ examples


def _pictures(*shape: int) -> Tensor:
    return torch.arange(float(math.prod(shape))).view(shape)


@sheet.cases(to_patches)
def _whole() -> Iterator[Arguments]:
    yield {"pictures": _pictures(1, 1, 2, 2), "size": 1}
    yield {"pictures": _pictures(1, 1, 4, 4), "size": 2}
    yield {"pictures": _pictures(1, 2, 2, 4), "size": 2}
    yield {"pictures": _pictures(2, 3, 4, 6), "size": 2}


@sheet.cases(from_patches)
def _cut() -> Iterator[Arguments]:
    for case in _whole():
        height, width = case["pictures"].shape[2:]
        yield {
            "patches": to_patches(**case),
            "size": case["size"],
            "height": height,
            "width": width,
        }


@sheet.cases(embed)
def _flat() -> Iterator[Arguments]:
    yield {
        "patches": torch.tensor([[[1.0], [2.0]]]),
        "w": torch.tensor([[3.0]]),
        "b": torch.tensor([0.5]),
        "first": torch.tensor([7.0]),
        "positions": torch.tensor([[100.0], [200.0], [300.0]]),
    }
    rng = torch.Generator().manual_seed(1)
    yield {
        "patches": torch.randn(2, 4, 12, generator=rng),
        "w": torch.randn(12, 3, generator=rng),
        "b": torch.randn(3, generator=rng),
        "first": torch.randn(3, generator=rng),
        "positions": torch.randn(5, 3, generator=rng),
    }


# ------------------------------------------------------------------ mistakes


def _ordered(pictures: Tensor, size: int, order: tuple[int, ...]) -> Tensor:
    B, C, H, W = pictures.shape
    cut = pictures.view(B, C, H // size, size, W // size, size)
    return cut.permute(*order).reshape(B, -1, C * size * size)


@sheet.mistake(
    to_patches,
    "you reshape straight away: that cuts strips of rows, not squares; view H and W as two axes "
    "each, and permute",
)
def _strips(pictures: Tensor, size: int) -> Tensor:
    return pictures.reshape(len(pictures), -1, pictures.shape[1] * size * size)


@sheet.mistake(
    to_patches, "your patches run column by column: they run row by row from the top left"
)
def _by_columns(pictures: Tensor, size: int) -> Tensor:
    return _ordered(pictures, size, (0, 4, 2, 1, 3, 5))


@sheet.mistake(
    to_patches, "the channels of a pixel stand together: a patch runs through its channels first"
)
def _channels_last(pictures: Tensor, size: int) -> Tensor:
    return _ordered(pictures, size, (0, 2, 4, 3, 5, 1))


@sheet.mistake(to_patches, "your patches are turned: rows and columns within each are swapped")
def _turned(pictures: Tensor, size: int) -> Tensor:
    return _ordered(pictures, size, (0, 2, 4, 1, 5, 3))


@sheet.mistake(
    to_patches, "every channel makes patches of its own: a patch holds all channels of its square"
)
def _channels_apart(pictures: Tensor, size: int) -> Tensor:
    cut = _ordered(pictures, size, (0, 1, 2, 4, 3, 5))
    return cut.reshape(len(pictures), -1, size * size)


@sheet.mistake(from_patches, "you reshape straight away: permute the six axes back first")
def _joined_straight(patches: Tensor, size: int, height: int, width: int) -> Tensor:
    return patches.reshape(len(patches), -1, height, width)


@sheet.mistake(
    from_patches, "your patches are put back column by column: they were taken row by row"
)
def _back_by_columns(patches: Tensor, size: int, height: int, width: int) -> Tensor:
    cut = patches.view(len(patches), width // size, height // size, -1, size, size)
    return cut.permute(0, 3, 2, 4, 1, 5).reshape(len(patches), -1, height, width)


def _with(patches: Tensor, w: Tensor, b: Tensor, first: Tensor) -> tuple[Tensor, Tensor]:
    return first.expand(len(patches), 1, -1), patches @ w + b


@sheet.mistake(embed, "the learned vector stands behind the patches: it comes first")
def _last(patches: Tensor, w: Tensor, b: Tensor, first: Tensor, positions: Tensor) -> Tensor:
    return torch.cat((*_with(patches, w, b, first)[::-1],), dim=1) + positions


@sheet.mistake(embed, "the positions are missing: without them a picture is a bag of patches")
def _no_positions(
    patches: Tensor, w: Tensor, b: Tensor, first: Tensor, positions: Tensor
) -> Tensor:
    return torch.cat(_with(patches, w, b, first), dim=1)


@sheet.mistake(embed, "the learned vector gets no position: add them after it is put in front")
def _first_without_position(
    patches: Tensor, w: Tensor, b: Tensor, first: Tensor, positions: Tensor
) -> Tensor:
    before, projected = _with(patches, w, b, first)
    return torch.cat((before, projected + positions[1:]), dim=1)


@sheet.mistake(embed, "the positions are off by one: position 0 belongs to the learned vector")
def _off_by_one(patches: Tensor, w: Tensor, b: Tensor, first: Tensor, positions: Tensor) -> Tensor:
    before, projected = _with(patches, w, b, first)
    return torch.cat((before, projected + positions[:-1]), dim=1)


@sheet.mistake(embed, "the learned vector is missing: put `first` before the patches")
def _only_patches(
    patches: Tensor, w: Tensor, b: Tensor, first: Tensor, positions: Tensor
) -> Tensor:
    return patches @ w + b + positions[1:]


@sheet.mistake(embed, "the bias is missing: patches @ w + b")
def _no_bias(patches: Tensor, w: Tensor, b: Tensor, first: Tensor, positions: Tensor) -> Tensor:
    return embed(patches, w, torch.zeros_like(b), first, positions)
