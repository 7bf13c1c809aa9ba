"""Heads that each look at a fixed offset are a convolution: nine of them are a 3 × 3 filter bank.

A head whose scores depend on positions alone can look at the pixel above left of every pixel,
another at the one above, and so on. Each brings one neighbour's colours; the output projection
weighs them as a filter's nine weights would. Attention looks exactly there only in the limit of
sharp scores: the sharper they are, the nearer it comes to the convolution. At the edge of the
picture a head that looks outside sees nothing and brings zeros, as padding does.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data.worlds.scenes import build_scenes
from regard.kernels.attention import attention
from regard.lab.result import Result, lines
from regard.visual.heat_maps import data_uri, heat_map
from regard.visual.svg import element, picture

SAME = 1e-9
"""In double precision: what differs by less differs by rounding."""
SHARP = (1.0, 4.0, 8.0, 16.0, 32.0, 64.0)
_SIDE = 96


def convolution(
    *, size: int = 16, n_filters: int = 8, sharpness: float = 64.0, seed: int = 0
) -> Result:
    """A random filter bank over a picture, beside nine heads with its weights."""
    rng = torch.Generator().manual_seed(seed)
    pixels = torch.from_numpy(_scene(size, seed)).double().permute(2, 0, 1)[None] / 255
    filters = torch.randn(n_filters, 3, 3, 3, generator=rng, dtype=torch.float64) / 27**0.5
    expected = F.conv2d(pixels, filters, padding=1)
    apart = {
        one: (filter_bank(pixels, filters, one) - expected).abs().max().item()
        for one in sorted({*SHARP, sharpness})
    }
    verdict = apart[sharpness] < SAME
    weights = offset_weights(size, size, sharpness)
    middle = (size // 2) * size + size // 2
    return Result(
        name="convolution",
        verdict=verdict,
        finding=(
            f"With scores of {sharpness:g} nine heads and an output projection give what "
            f"{n_filters} filters of 3 × 3 give, to {apart[sharpness]:.1g}"
            + ("." if verdict else ": no convolution yet, for they look beside the pixel too.")
            + f" With scores of 1 the two differ by {apart[1.0]:.2g}: there every head looks "
            "everywhere."
        ),
        numbers={
            "sharpness": list(apart),
            "largest difference": list(apart.values()),
            "weights of the filters": filters.numel(),
            "weights of the output projection": filters.numel(),
        },
        pictures=(
            lines(
                {"nine heads against the filters": apart},
                "How near attention comes to a convolution",
                "score of the pixel that is looked at",
                "largest difference",
                log_y=True,
            ),
            _looks(pixels, weights[:, middle].view(9, size, size)),
        ),
    )


def offset_weights(rows: int, columns: int, sharpness: float) -> Tensor:
    """(9, N, N): where nine heads look, each at the neighbour of its own offset."""
    at = torch.eye(rows * columns, dtype=torch.float64)  # a pixel's position is its own direction
    wanted, inside = _neighbours(rows, columns)
    _, weights = attention(
        (sharpness * at[wanted])[None],
        at.expand(1, 9, -1, -1),
        at.expand(1, 9, -1, -1),
        score="dot",
        mask=inside[None, :, :, None].expand(1, 9, -1, rows * columns),
        need_weights=True,
    )
    return weights[0]


def filter_bank(pixels: Tensor, filters: Tensor, sharpness: float) -> Tensor:
    """Pixels (1, C, H, W), filters (O, C, 3, 3) -> (1, O, H, W), by attention."""
    _, _, rows, columns = pixels.shape
    values = pixels.flatten(2).mT  # (1, N, C)
    heads = offset_weights(rows, columns, sharpness) @ values  # (9, N, C): one neighbour a head
    joined = heads.permute(1, 0, 2).flatten(1)  # (N, 9 · C)
    projection = filters.permute(2, 3, 1, 0).flatten(0, 2)  # (9 · C, O)
    return (joined @ projection).mT.view(1, -1, rows, columns)


def _neighbours(rows: int, columns: int) -> tuple[Tensor, Tensor]:
    """(9, N): which pixel each head wants from each, and whether it is in the picture."""
    y, x = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    offsets = [(dy, dx) for dy in (-1, 0, 1) for dx in (-1, 0, 1)]
    ys, xs = (torch.stack([axis + o[i] for o in offsets]) for i, axis in ((0, y), (1, x)))
    inside = (ys >= 0) & (ys < rows) & (xs >= 0) & (xs < columns)
    return (ys.clamp(0, rows - 1) * columns + xs.clamp(0, columns - 1)).flatten(1), inside.flatten(
        1
    )


def _scene(size: int, seed: int) -> object:
    return build_scenes(seed=seed, n_train=1, n_test=1, size=size)["train"][0].pixels()


def _looks(pixels: Tensor, weights: Tensor) -> str:
    """Where each of the nine heads looks from the pixel in the middle."""
    uri = data_uri((pixels[0].permute(1, 2, 0) * 255).round().byte().numpy())
    maps = [
        element(
            "g",
            heat_map(uri, one.numpy(), size=(_SIDE, _SIDE), smooth=False),
            transform=f"translate({(i % 3) * (_SIDE + 8)} {24 + (i // 3) * (_SIDE + 8)})",
        )
        for i, one in enumerate(weights)
    ]
    title = "Where nine heads look from the middle"
    side = 3 * (_SIDE + 8)
    return picture(
        element("text", title, x=0, y=14, font_weight=600),
        *maps,
        size=(side, side + 24),
        label=title,
    )
