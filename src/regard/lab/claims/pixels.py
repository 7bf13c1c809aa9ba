"""Plain attention over the pixels of a picture finds what belongs together, with nothing learned.

Query, key and value of a pixel are its colours. A pixel then looks at pixels like itself, wherever
they are, and brings home their mean; done again and again, the pixels of an object become one
colour. This is mean shift, a way of clustering that is older than attention: softmax of minus the
squared distance is its kernel.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.data.worlds.scenes import SceneRecord, build_scenes
from regard.kernels.attention import attention
from regard.lab.result import Result, lines, percent
from regard.visual.heat_maps import data_uri
from regard.visual.svg import element, picture

NEAR = 0.15
"""Pixels of one group end no farther apart than this, colours being from 0 to 1."""
GOOD = 0.9
_SIDE = 128


def pixels(
    *,
    n_scenes: int = 10,
    size: int = 32,
    sharpness: float = 200.0,
    n_layers: int = 4,
    seed: int = 0,
) -> Result:
    """Layers of attention without weights over pictures of the world ``scenes``."""
    records = [
        one
        for one in build_scenes(seed=seed, n_train=4 * n_scenes, n_test=1, size=size)["train"]
        if not any(thing.striped for thing in one.scene.objects)
    ][:n_scenes]
    found = [_looked_at(one, sharpness, n_layers) for one in records]
    shares, areas, agreements = (np.mean(part, axis=0) for part in zip(*found, strict=True))
    before, after = float(agreements[0]), float(agreements[-1])
    return Result(
        name="pixels",
        verdict=after > GOOD and float(shares) > 2 * float(areas),
        finding=(
            f"Of what a pixel of an object looks at, {percent(float(shares))} is the same object, "
            f"which fills {percent(float(areas))} of the picture. After {n_layers} layers, pixels "
            f"grouped by colour agree with the objects as drawn by {after:.2f} (adjusted Rand "
            f"index; 0 is chance), before by {before:.2f}."
        ),
        numbers={
            "share of weight on the pixel's own object": float(shares),
            "share of the picture that it fills": float(areas),
            "agreement with the objects by layer": [float(one) for one in agreements],
        },
        pictures=(
            lines(
                {"groups of like pixels": [float(one) for one in agreements]},
                "Objects found by attention without weights",
                "layers",
                "adjusted Rand index",
                xs=range(n_layers + 1),
            ),
            _shown(records[0], sharpness, n_layers),
        ),
    )


def layers(x: Tensor, sharpness: float, n_layers: int) -> list[Tensor]:
    """Pixels (N, 3) before the first layer and after each."""
    found = [x]
    for _ in range(n_layers):
        x, _ = attend_to_alike(x, sharpness)
        found.append(x)
    return found


def attend_to_alike(x: Tensor, sharpness: float) -> tuple[Tensor, Tensor]:
    """Pixels (N, 3) after one look at each other, and where they looked (N, N).

    Scores are -β|q - k|² / 2; the part of q alone changes no softmax, so a dot product and a bias
    of the keys will do.
    """
    bias = -sharpness * x.square().sum(dim=-1) / 2
    values, weights = attention(
        (sharpness * x)[None, None], x[None, None], x[None, None],
        score="dot", bias=bias[None, None, None], need_weights=True,
    )  # fmt: skip
    return values[0, 0], weights[0, 0]


def _looked_at(
    record: SceneRecord, sharpness: float, n_layers: int
) -> tuple[float, float, list[float]]:
    """Share of weight on the own object, its share of the picture, agreement by layer."""
    x = _colours(record)
    objects = segments(record)
    _, weights = attend_to_alike(x, sharpness)
    same = torch.from_numpy(objects[:, None] == objects)
    things = torch.from_numpy(objects > 0)
    share = (weights * same).sum(dim=-1)[things].mean().item()
    area = same.double().mean(dim=-1)[things].mean().item()
    agreements = [
        adjusted_rand(groups(one.numpy()), objects) for one in layers(x, sharpness, n_layers)
    ]
    return share, area, agreements


def _colours(record: SceneRecord) -> Tensor:
    return torch.from_numpy(record.pixels().reshape(-1, 3)).double() / 255


def segments(record: SceneRecord) -> NDArray[np.int64]:
    """(N,): 0 for the background; objects of one colour are one, for colour is all there is."""
    colours = list(dict.fromkeys(one.colour for one in record.scene.objects))
    found = np.zeros(record.size**2, np.int64)
    for one, mask in zip(record.scene.objects, record.masks(), strict=True):
        found[mask.reshape(-1)] = 1 + colours.index(one.colour)
    return found


def groups(x: NDArray[np.float64]) -> NDArray[np.int64]:
    """(N,): pixels (N, 3) no farther from a group's first than ``NEAR`` belong to it."""
    found = np.full(len(x), -1)
    for number, _ in enumerate(x):
        free = np.flatnonzero(found < 0)
        if not len(free):
            break
        near = np.linalg.norm(x[free] - x[free[0]], axis=1) < NEAR
        found[free[near]] = number
    return found


def adjusted_rand(a: NDArray[np.int64], b: NDArray[np.int64]) -> float:
    """Agreement of two groupings (N,): 1 if they are the same, 0 by chance (Hubert & Arabie 1985).

    >>> adjusted_rand(np.array([0, 0, 1, 1]), np.array([5, 5, 7, 7]))
    1.0
    """
    table = np.zeros((a.max() + 1, b.max() + 1))
    np.add.at(table, (a, b), 1)
    pairs, rows, columns = ((n * (n - 1) / 2).sum() for n in (table, table.sum(1), table.sum(0)))
    expected = rows * columns / (len(a) * (len(a) - 1) / 2)
    most = (rows + columns) / 2
    return 1.0 if most == expected else float((pairs - expected) / (most - expected))


def _shown(record: SceneRecord, sharpness: float, n_layers: int) -> str:
    """The picture, and what it has become after some layers."""
    found = layers(_colours(record), sharpness, n_layers)
    steps = sorted({0, 1, 2, n_layers})
    parts = []
    for i, step in enumerate(steps):
        shown = (found[step].view(record.size, record.size, 3) * 255).round().byte().numpy()
        image = element(
            "image", href=data_uri(shown), width=_SIDE, height=_SIDE,
            style="image-rendering: pixelated",
        )  # fmt: skip
        label = "the picture" if step == 0 else f"layer {step}"
        text = element("text", label, x=_SIDE / 2, y=_SIDE + 16, text_anchor="middle")
        parts.append(element("g", image, text, transform=f"translate({i * (_SIDE + 12)} 24)"))
    title = "A picture that looks at itself"
    width = len(steps) * (_SIDE + 12)
    head = element("text", title, x=0, y=14, font_weight=600)
    return picture(head, *parts, size=(width, _SIDE + 50), label=title)
