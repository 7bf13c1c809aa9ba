"""Pictures made to look different each time they are learned from, on the device they are on.

What is drawn by chance is drawn on the host from a seed and the numbers of the batch's examples:
the same on every device, and the same again after a training was resumed, while another epoch, in
another order, draws anew. The draws are a few small tensors that travel with the batch; what is
done with them is the same for every batch, so that it can be recorded with the rest of an update.
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


Draws = Mapping[str, Tensor]
"""What was drawn for a batch, by the name of the change."""


class Augmentation:
    """Changes the pictures of a batch by the numbers of its examples, in their order."""

    def __init__(self, settings: AugmentSettings, seed: int) -> None:
        self.settings = settings
        self.seed = seed

    def __call__(self, pixels: Tensor, numbers: Sequence[int]) -> Augmented:
        """Pictures (B, 3, H, W) of bytes, which have these numbers, or begin with them."""
        drawn = self.draw(numbers, len(pixels))
        return self.apply(pixels, {name: x.to(pixels.device) for name, x in drawn.items()})

    def draw(self, numbers: Sequence[int], n: int) -> Draws:
        """For ``n`` pictures, on the host."""
        settings, rng = self.settings, np.random.default_rng((self.seed, *numbers))
        found: dict[str, np.ndarray] = {}
        if settings.flip or settings.flip_down:
            asked = np.array([[settings.flip], [settings.flip_down]])
            found["flips"] = (rng.random((2, n)) < 0.5) & asked
        if settings.crop:
            found["shifts"] = rng.integers(-settings.crop, settings.crop + 1, (2, n))
        if settings.zoom < 1:
            side = rng.uniform(settings.zoom, 1, (n, 1))
            found["sides"], found["corners"] = side, (1 - side) * rng.random((n, 2))
        if settings.colour:
            found["tones"] = 1 + settings.colour * rng.uniform(-1, 1, (3, n))
        if settings.randaugment:
            found["changes"] = rng.integers(len(CHANGES), size=(settings.randaugment, n))
            found["signs"] = np.where(rng.random((settings.randaugment, n)) < 0.5, -1.0, 1.0)
        if settings.mixes:
            found |= _drawn_partners(settings, n, rng)
        return {name: torch.from_numpy(np.ascontiguousarray(x)) for name, x in found.items()}

    def apply(self, pixels: Tensor, draws: Draws) -> Augmented:
        """Pictures (B, 3, H, W) of bytes, and draws on their device."""
        settings = self.settings
        x, placements = placed(pixels.to(torch.float32) / 255, settings, draws)
        if settings.colour:
            for change, amounts in zip(
                (brightness, contrast, saturation), draws["tones"], strict=True
            ):
                x = change(x, _wide(amounts, x)).clamp(0, 1)
        for i in range(settings.randaugment):
            x = randaugmented(x, settings.magnitude / 10, draws["changes"][i], draws["signs"][i])
        return Augmented(*mixed(x, settings, draws), placements)


def placed(x: Tensor, settings: AugmentSettings, draws: Draws) -> tuple[Tensor, Tensor]:
    """Pictures mirrored, shifted and enlarged; their placements (B, 2, 2), see ``Augmented``."""
    placements = x.new_zeros(len(x), 2, 2)
    placements[..., 0] = 1
    if settings.flip or settings.flip_down:
        for axis, chosen in enumerate(draws["flips"]):
            x = torch.where(chosen.view(-1, 1, 1, 1), x.flip(3 - axis), x)
        turned = draws["flips"].T.unsqueeze(-1)  # (B, 2, 1)
        a, b = placements.unbind(-1)
        placements = torch.where(turned, torch.stack((-a, 1 - b), dim=-1), placements)
    if settings.crop:
        down, right = draws["shifts"]
        x = shifted(x, settings.crop, down, right)
        offset = torch.stack((right / x.shape[3], down / x.shape[2]), dim=1)
        placements = _within(placements, torch.ones_like(offset), offset)
    if settings.zoom < 1:
        side = draws["sides"].to(x.dtype).expand(-1, 2)
        corner = draws["corners"].to(x.dtype)
        x = cut_out(x, side, corner)
        placements = _within(placements, side, corner)
    return x, placements


def _within(placements: Tensor, scale: Tensor, offset: Tensor) -> Tensor:
    """Placements (B, 2, 2) of pictures of which parts (B, 2), (B, 2) are then shown."""
    a, b = placements.unbind(-1)
    return torch.stack((a * scale, a * offset + b), dim=-1)


def cut_out(x: Tensor, side: Tensor, corner: Tensor) -> Tensor:
    """The part of each picture from a corner (B, 2) on, x and y, as large as the sides (B, 2)."""
    middle = (2 * corner + side - 1).unsqueeze(-1)
    return moved(x, torch.cat((torch.diag_embed(side), middle), dim=-1))


def shifted(x: Tensor, most: int, down: Tensor, right: Tensor) -> Tensor:
    """Pictures seen from so many pixels (B,) further down and right; what is new is mirrored.

    None is moved by more than ``most``.
    """
    B, _, H, W = x.shape
    padded = F.pad(x, (most,) * 4, mode="reflect")
    rows = (down[:, None] + most + torch.arange(H, device=x.device))[:, None, :, None]
    columns = (right[:, None] + most + torch.arange(W, device=x.device))[:, None, None, :]
    picture = torch.arange(B, device=x.device)[:, None, None, None]
    channel = torch.arange(x.shape[1], device=x.device)[None, :, None, None]
    return padded[picture, channel, rows, columns]


def _drawn_partners(
    settings: AugmentSettings, n: int, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """With whom pictures are mixed, and how much is kept; of both ways, one by chance a batch."""
    alphas = {"mixup": settings.mixup, "cutmix": settings.cutmix}
    able = [name for name, alpha in alphas.items() if alpha]
    kind = able[int(rng.integers(len(able)))]
    kept = rng.beta(alphas[kind], alphas[kind], n) if n > 1 else np.ones(n)
    return {
        "partners": rng.permutation(n),
        "kept": kept,
        "blends": np.array(kind == "mixup"),
        "middles": rng.random((2, n)),
    }


def mixed(x: Tensor, settings: AugmentSettings, draws: Draws) -> Mixed:
    """Mixup (Zhang et al. 2018) or CutMix (Yun et al. 2019), as it was drawn."""
    if not settings.mixes:
        B, device = len(x), x.device
        return Mixed(x, torch.arange(B, device=device), torch.ones(B, device=device))
    partners, kept, blends = draws["partners"], draws["kept"].to(x.dtype), draws["blends"]
    others, inside = x[partners], _rectangles(kept, draws["middles"].to(x.dtype), x)
    share = _wide(kept, x)
    found = torch.where(blends, x * share + others * (1 - share), torch.where(inside, others, x))
    left = 1 - inside.to(x.dtype).mean(dim=(1, 2, 3))
    return Mixed(found, partners, torch.where(blends, kept, left))


def _rectangles(kept: Tensor, middles: Tensor, x: Tensor) -> Tensor:
    """(B, 1, H, W): a rectangle a picture, at its edge cut off, of 1 - ``kept`` of its area."""
    half = (1 - kept).sqrt()[:, None] / 2
    down, across = (
        (((torch.arange(n, device=x.device) + 0.5) / n - middle[:, None]).abs() < half)
        for n, middle in zip(x.shape[2:], middles, strict=True)
    )
    return down[:, None, :, None] & across[:, None, None, :]


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
    kernel = x.new_ones(3, 3)
    kernel[1, 1].fill_(5)  # not an assignment, which copies from the host
    kernel /= 13
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


def randaugmented(x: Tensor, magnitude: float, changes: Tensor, signs: Tensor) -> Tensor:
    """Each picture is changed in one way of ``CHANGES`` (B,), by the magnitude from 0 to 1.

    All changes are made of all pictures, and one is taken: which ones were drawn, no host needs to
    know.
    """
    signs = signs.to(x.dtype)
    found = moved(x, affine_maps(changes, magnitude * signs))
    for name, change in {**TONES, **REDUCTIONS}.items():
        far = 1 + MOST_TONE * magnitude * signs if name in TONES else signs.abs() * magnitude
        chosen = changes == CHANGES.index(name)
        found = torch.where(_wide(chosen), change(x, _wide(far, x)).clamp(0, 1), found)
    return torch.where(_wide(changes == CHANGES.index("identity")), x, found)


def affine_maps(changes: Tensor, by: Tensor) -> Tensor:
    """(B, 2, 3): where the points of new pictures lie in the old ones, sides being from -1 to 1.

    ``changes`` (B,) that are no moves leave everything where it is.
    """

    def far(name: Move, most: float) -> Tensor:
        return torch.where(changes == CHANGES.index(name), most * by, torch.zeros_like(by))

    turn = far("rotate", MOST_TURN)
    across = (turn.cos(), far("shear_x", MOST_SHEAR) - turn.sin())
    down = (far("shear_y", MOST_SHEAR) + turn.sin(), turn.cos())
    offsets = (far("translate_x", 2 * MOST_SHIFT), far("translate_y", 2 * MOST_SHIFT))
    rows = [
        torch.stack((*row, off), dim=-1) for row, off in zip((across, down), offsets, strict=True)
    ]
    return torch.stack(rows, dim=-2)


def moved(x: Tensor, affine: Tensor) -> Tensor:
    """Pictures (B, 3, H, W) by their maps (B, 2, 3); what comes from outside is grey."""
    grid = F.affine_grid(affine, list(x.shape), align_corners=False)
    return 0.5 + F.grid_sample(x - 0.5, grid, mode="bilinear", align_corners=False)


def _blend(a: Tensor, b: Tensor, share: Tensor) -> Tensor:
    return a + (b - a) * share


def _grey(x: Tensor) -> Tensor:
    red, green, blue = (share * x[:, i : i + 1] for i, share in enumerate(LUMA))
    return red + green + blue


def _wide(numbers: Tensor, x: Tensor | None = None) -> Tensor:
    """Numbers (B,) as (B, 1, 1, 1), of the type of the pictures."""
    return (numbers if x is None else numbers.to(x.dtype)).view(-1, 1, 1, 1)
