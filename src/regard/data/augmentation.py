"""Pictures made to look different each time they are learned from, on the device they are on.

What is drawn by chance is drawn on the host from a seed and the numbers of the batch's examples:
the same on every device, and the same again after a training was resumed, while another epoch, in
another order, draws anew. All of it is small; the pictures never leave their device.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data.settings import AugmentSettings

LUMA = (0.299, 0.587, 0.114)
"""How bright red, green and blue look."""
GREYS = 256
MOST_TURN, MOST_SHEAR, MOST_SHIFT, MOST_TONE = math.radians(30), 0.3, 0.3, 0.9
"""At RandAugment's largest magnitude: an angle, a slope, a share of the side, a share of 1."""


class Mixed(NamedTuple):
    """Pictures that may have parts of others: a share of itself, and the rest of a partner."""

    pixels: Tensor
    """(B, 3, H, W) from 0 to 1."""
    partners: Tensor
    """(B,): with which row each was mixed; itself where it was not."""
    shares: Tensor
    """(B,): how much of a label is the row's own."""


class Augmented(NamedTuple):
    """Pictures as they are learned from."""

    pixels: Tensor
    partners: Tensor
    shares: Tensor
    """These three as in ``Mixed``."""
    placements: Tensor
    """(B, 2, 2): (a, b) of x, then of y. What is at x now was at a·x + b before, as shares of the
    picture's sides; turns and shears of RandAugment are not told."""


class Augmentation:
    """Changes the pictures of a batch by the numbers of its examples, in their order."""

    def __init__(self, settings: AugmentSettings, seed: int) -> None:
        self.settings = settings
        self.seed = seed

    def __call__(self, pixels: Tensor, numbers: Sequence[int]) -> Augmented:
        """Pictures (B, 3, H, W) of bytes, which have these numbers."""
        settings, rng = self.settings, np.random.default_rng((self.seed, *numbers))
        x, placements = placed(pixels.to(torch.float32) / 255, settings, rng)
        if settings.colour:
            tones = 1 + settings.colour * rng.uniform(-1, 1, (3, len(x)))
            for change, amounts in zip((brightness, contrast, saturation), tones, strict=True):
                x = change(x, _on(amounts, x)).clamp(0, 1)
        for _ in range(settings.randaugment):
            x = randaugmented(x, settings.magnitude / 10, rng)
        return Augmented(*mixed(x, settings, rng), torch.from_numpy(placements).to(x))


def placed(
    x: Tensor, settings: AugmentSettings, rng: np.random.Generator
) -> tuple[Tensor, np.ndarray]:
    """Pictures mirrored, shifted and enlarged; their placements (B, 2, 2), see ``Augmented``."""
    placements = np.tile([1.0, 0.0], (len(x), 2, 1))
    for axis, flips in enumerate((settings.flip, settings.flip_down)):
        if flips:
            chosen = rng.random(len(x)) < 0.5
            x = _chosen(x, chosen, x.flip(3 - axis))
            placements[chosen, axis] = -1, 1
    if settings.crop:
        down, right = rng.integers(-settings.crop, settings.crop + 1, (2, len(x)))
        x = shifted(x, settings.crop, down, right)
        offset = np.stack((right / x.shape[3], down / x.shape[2]), axis=1)
        placements = _within(placements, np.ones_like(offset), offset)
    if settings.zoom < 1:
        side = np.repeat(rng.uniform(settings.zoom, 1, (len(x), 1)), 2, axis=1)
        corner = (1 - side) * rng.random(side.shape)
        x = cut_out(x, side, corner)
        placements = _within(placements, side, corner)
    return x, placements


def _within(placements: np.ndarray, scale: np.ndarray, offset: np.ndarray) -> np.ndarray:
    """Placements (B, 2, 2) of pictures of which parts (B, 2), (B, 2) are then shown."""
    a, b = placements[..., 0], placements[..., 1]
    return np.stack((a * scale, a * offset + b), axis=-1)


def cut_out(x: Tensor, side: np.ndarray, corner: np.ndarray) -> Tensor:
    """The part of each picture from a corner (B, 2) on, x and y, as large as the sides (B, 2)."""
    affine = torch.zeros(len(x), 2, 3)
    affine[:, (0, 1), (0, 1)] = torch.from_numpy(side).float()
    affine[:, :, 2] = torch.from_numpy(2 * corner + side - 1).float()
    return moved(x, affine.to(x))


def shifted(x: Tensor, most: int, down: np.ndarray, right: np.ndarray) -> Tensor:
    """Pictures seen from so many pixels (B,) further down and right; what is new is mirrored.

    None is moved by more than ``most``.
    """
    B, _, H, W = x.shape
    first_row, first_column = (torch.from_numpy(by + most).to(x.device) for by in (down, right))
    padded = F.pad(x, (most,) * 4, mode="reflect")
    rows = (first_row[:, None] + torch.arange(H, device=x.device))[:, None, :, None]
    columns = (first_column[:, None] + torch.arange(W, device=x.device))[:, None, None, :]
    picture = torch.arange(B, device=x.device)[:, None, None, None]
    channel = torch.arange(x.shape[1], device=x.device)[None, :, None, None]
    return padded[picture, channel, rows, columns]


def mixed(x: Tensor, settings: AugmentSettings, rng: np.random.Generator) -> Mixed:
    """Mixup (Zhang et al. 2018) or CutMix (Yun et al. 2019); of both, one by chance a batch."""
    B, device = len(x), x.device
    alphas = {"mixup": settings.mixup, "cutmix": settings.cutmix}
    able = [name for name, alpha in alphas.items() if alpha]
    if not able or B < 2:
        return Mixed(x, torch.arange(B, device=device), torch.ones(B, device=device))
    kind = able[int(rng.integers(len(able)))]
    partners = torch.from_numpy(rng.permutation(B)).to(device)
    shares = rng.beta(alphas[kind], alphas[kind], B)
    if kind == "mixup":
        kept = _on(shares, x)
        return Mixed(x * kept + x[partners] * (1 - kept), partners, kept.flatten())
    inside = _rectangles(shares, x.shape[2], x.shape[3], rng).to(device)  # (B, 1, H, W)
    kept = 1 - inside.float().mean(dim=(1, 2, 3))
    return Mixed(torch.where(inside, x[partners], x), partners, kept)


def _rectangles(shares: np.ndarray, height: int, width: int, rng: np.random.Generator) -> Tensor:
    """(B, 1, H, W): a rectangle a picture, at its edge cut off, of 1 - share of its area."""
    side = np.sqrt(1 - shares)
    inside = []
    for length in (height, width):
        middle = rng.uniform(0, length, len(shares))
        at = np.arange(length) + 0.5
        inside.append(np.abs(at - middle[:, None]) < side[:, None] * length / 2)
    return torch.from_numpy(inside[0][:, None, :, None] & inside[1][:, None, None, :])


# ------------------------------------------------------------------ RandAugment (Cubuk et al. 2020)

Change = Callable[[Tensor, Tensor], Tensor]
"""Pictures (B, 3, H, W) and by how much (B, 1, 1, 1) -> pictures."""


def brightness(x: Tensor, by: Tensor) -> Tensor:
    """Towards black below 1, away from it above."""
    return x * by


def contrast(x: Tensor, by: Tensor) -> Tensor:
    """Towards its mean grey below 1, away from it above."""
    return _blend(_grey(x).mean(dim=(2, 3), keepdim=True), x, by)


def saturation(x: Tensor, by: Tensor) -> Tensor:
    """Towards grey below 1, away from it above."""
    return _blend(_grey(x), x, by)


def sharpness(x: Tensor, by: Tensor) -> Tensor:
    """Towards a blurred picture below 1, away from it above; the edge stays as it is."""
    kernel = torch.tensor([[1.0, 1, 1], [1, 5, 1], [1, 1, 1]], device=x.device) / 13
    soft = x.clone()
    soft[:, :, 1:-1, 1:-1] = F.conv2d(x, kernel.expand(x.shape[1], 1, 3, 3), groups=x.shape[1])
    return _blend(soft, x, by)


def posterised(x: Tensor, by: Tensor) -> Tensor:
    """Fewer tones: ``by`` from 0 to 1 leaves 8 to 4 bits."""
    levels = 2 ** (8 - 4 * by).round()
    return (x * (GREYS - 1) / (GREYS / levels)).floor() * (GREYS / levels) / (GREYS - 1)


def solarised(x: Tensor, by: Tensor) -> Tensor:
    """What is brighter than 1 - ``by`` is turned into its negative."""
    return torch.where(x > 1 - by, 1 - x, x)


def autocontrast(x: Tensor, _by: Tensor) -> Tensor:
    """The darkest tone of each channel becomes 0, the brightest 1."""
    low, high = x.amin(dim=(2, 3), keepdim=True), x.amax(dim=(2, 3), keepdim=True)
    flat = high == low
    return torch.where(flat, x, (x - low) / torch.where(flat, torch.ones_like(low), high - low))


def equalised(x: Tensor, _by: Tensor) -> Tensor:
    """Every tone of a channel as often as every other, as nearly as can be."""
    tones = (x * (GREYS - 1)).round().long().flatten(2)  # (B, 3, H·W)
    counts = torch.zeros(*tones.shape[:2], GREYS, device=x.device)
    counts = counts.scatter_add_(2, tones, torch.ones_like(tones, dtype=counts.dtype))
    below = counts.cumsum(dim=2)
    least = below.masked_fill(counts == 0, torch.inf).amin(dim=2, keepdim=True)
    spread = (below[..., -1:] - least).clamp(min=1)
    return ((below.gather(2, tones) - least) / spread).clamp(0, 1).view_as(x)


TONES: Mapping[str, Change] = {
    "brightness": brightness,
    "contrast": contrast,
    "saturation": saturation,
    "sharpness": sharpness,
}
"""By 1 they change nothing; a magnitude is how far from 1 they go, either way."""
REDUCTIONS: Mapping[str, Change] = {
    "posterise": posterised,
    "solarise": solarised,
    "autocontrast": autocontrast,
    "equalise": equalised,
}
"""By 0 they change nothing, or they take no magnitude."""
Move = Literal["rotate", "shear_x", "shear_y", "translate_x", "translate_y"]
MOVES: tuple[Move, ...] = ("rotate", "shear_x", "shear_y", "translate_x", "translate_y")
CHANGES = ("identity", *TONES, *REDUCTIONS, *MOVES)


def randaugmented(x: Tensor, magnitude: float, rng: np.random.Generator) -> Tensor:
    """Each picture is changed in one way of ``CHANGES``, by the magnitude from 0 to 1."""
    which = rng.integers(len(CHANGES), size=len(x))
    signs = np.where(rng.random(len(x)) < 0.5, -1.0, 1.0)
    moves = np.array(
        [_affine(CHANGES[i], magnitude * s) for i, s in zip(which, signs, strict=True)]
    )
    moving = np.isin(which, [CHANGES.index(name) for name in MOVES])
    if moving.any():
        rows = torch.from_numpy(np.flatnonzero(moving)).to(x.device)
        x = x.index_copy(0, rows, moved(x[rows], torch.from_numpy(moves[moving]).to(x)))
    for name, change in {**TONES, **REDUCTIONS}.items():
        chosen = np.flatnonzero(which == CHANGES.index(name))
        if len(chosen):
            far = np.full(len(chosen), magnitude)
            by = 1 + MOST_TONE * magnitude * signs[chosen] if name in TONES else far
            rows = torch.from_numpy(chosen).to(x.device)
            x = x.index_copy(0, rows, change(x[rows], _on(by, x)).clamp(0, 1))
    return x


def _affine(name: str, by: float) -> list[list[float]]:
    """2 × 3: where the points of a new picture lie in the old one, sides being from -1 to 1."""
    turn = MOST_TURN * by if name == "rotate" else 0.0
    found = [[math.cos(turn), -math.sin(turn), 0.0], [math.sin(turn), math.cos(turn), 0.0]]
    if name == "shear_x":
        found[0][1] = MOST_SHEAR * by
    if name == "shear_y":
        found[1][0] = MOST_SHEAR * by
    if name == "translate_x":
        found[0][2] = 2 * MOST_SHIFT * by
    if name == "translate_y":
        found[1][2] = 2 * MOST_SHIFT * by
    return found


def moved(x: Tensor, affine: Tensor) -> Tensor:
    """Pictures (B, 3, H, W) by their maps (B, 2, 3); what comes from outside is grey."""
    grid = F.affine_grid(affine, list(x.shape), align_corners=False)
    return 0.5 + F.grid_sample(x - 0.5, grid, mode="bilinear", align_corners=False)


def _blend(a: Tensor, b: Tensor, share: Tensor) -> Tensor:
    return a + (b - a) * share


def _grey(x: Tensor) -> Tensor:
    return (x * torch.tensor(LUMA, device=x.device).view(3, 1, 1)).sum(dim=1, keepdim=True)


def _on(numbers: np.ndarray, x: Tensor) -> Tensor:
    """Numbers (B,) as (B, 1, 1, 1), where the pictures are."""
    return torch.from_numpy(np.array(numbers)).to(x).view(-1, 1, 1, 1)


def _chosen(x: Tensor, rows: np.ndarray, other: Tensor) -> Tensor:
    return torch.where(torch.from_numpy(rows).to(x.device).view(-1, 1, 1, 1), other, x)
