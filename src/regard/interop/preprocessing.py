"""preprocessor_config.json: how the folders of Hugging Face say that pictures become pixels.

Bytes are multiplied (``rescale_factor``), a mean is taken away and a deviation divided by; before
that a picture is brought to a size. Our models begin with bytes from 0 to 1, so the numbers of a
folder are put into theirs: whatever is said about factor, mean and deviation is heeded exactly.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.core.errors import CheckpointError
from regard.data.settings import DataSettings
from regard.interop import folders
from regard.models.vision import CHANNELS, PictureConfig

FILE = "preprocessor_config.json"
BYTES = 255
RESAMPLING = {2: "bilinear", 3: "bicubic"}
"""Pillow's numbers of what ``data.resample`` can be."""
THEIR_RESAMPLING = {ours: number for number, ours in RESAMPLING.items()}
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
HALVES = (0.5, 0.5, 0.5)


@dataclass(frozen=True, slots=True)
class Preparation:
    """What a folder says about pictures, in our settings."""

    pixels: Mapping[str, Any]
    """Of the model: ``pixel_mean`` and ``pixel_std``."""
    data: Mapping[str, Any]
    """Of the recipe's data: ``image_size``, ``fit``, ``resample``, ``longest_edge``."""
    notes: tuple[str, ...] = ()


def vit_preparation(folder: Path, image_size: int) -> Preparation:
    """That of a Vision Transformer, which reads squares of one size."""
    path = folder / FILE
    if not path.exists():
        return Preparation({}, {"image_size": image_size})
    said = _read(path)
    pixels = _pixels(said, path, HALVES, HALVES)
    data = {"image_size": image_size, "resample": _resample(said, path)}
    size, crops = said.get("size", image_size), bool(said.get("do_center_crop", False))
    match size:
        case {"height": int(side), "width": int(width)} if side == width:
            pass
        case {"shortest_edge": int(side)}:
            crops = True
        case int(side):
            pass
        case _:
            side = 0
    notes: tuple[str, ...] = ()
    if crops and side > image_size:
        notes = (
            f"its pictures were cut out of the middle of larger ones (size={size!r}); here the "
            f"shorter side gets {image_size} pixels, and nothing of it is cut off",
        )
    elif side != image_size and said.get("do_resize", True):
        wanted = f"a height and a width of {image_size}, as the model's image_size is"
        _refuse(path, f"size={size!r} (supported: {wanted})")
    return Preparation(pixels, {**data, "fit": "crop" if crops else "squash"}, notes)


def detr_preparation(folder: Path) -> Preparation:
    """That of a DETR, which reads pictures of any size."""
    path = folder / FILE
    said = _read(path) if path.exists() else {}
    pixels = _pixels(said, path, IMAGENET_MEAN, IMAGENET_STD)
    if not said.get("do_resize", True):
        _refuse(path, "do_resize=false (supported: true, with a size)")
    if said.get("pad_size") is not None:
        _refuse(path, f"pad_size={said['pad_size']!r} (supported: none)")
    size = said.get("size", {"shortest_edge": 800, "longest_edge": 1333})
    if type(size) is int:  # as it was written down before 2023
        size = {"shortest_edge": size, "longest_edge": said.get("max_size", 1333)}
    match size:
        case {"shortest_edge": int(shortest), "longest_edge": int(longest), **rest} if not rest:
            data = {"image_size": shortest, "fit": "keep", "longest_edge": longest}
        case {"height": int(side), "width": int(width), **rest} if side == width and not rest:
            data = {"image_size": side, "fit": "squash"}
        case _:
            _refuse(
                path,
                f"size={size!r} (supported: shortest_edge and longest_edge, or a height and an "
                "equal width)",
            )
    notes = () if path.exists() else (f"it has no {FILE}: pictures are prepared as DETR has it",)
    return Preparation(pixels, {**data, "resample": _resample(said, path)}, notes)


def _read(path: Path) -> dict[str, Any]:
    said: dict[str, Any] = folders.read_json(path)
    if said.get("do_flip_channel_order"):
        _refuse(path, "do_flip_channel_order=true (supported: false)")
    return said


def _resample(said: Mapping[str, Any], path: Path) -> str:
    number = said.get("resample", 2)
    if number not in RESAMPLING:
        known = ", ".join(f"{one} ({name})" for one, name in RESAMPLING.items())
        _refuse(path, f"resample={number!r} (supported: {known})")
    return RESAMPLING[number]


def _pixels(
    said: Mapping[str, Any], path: Path, mean: tuple[float, ...], std: tuple[float, ...]
) -> dict[str, Any]:
    """``pixel_mean`` and ``pixel_std`` of bytes from 0 to 1.

    (byte · factor − mean) / std is (byte / 255 − mean / (255 · factor)) / (std / (255 · factor)).
    """
    factor = said.get("rescale_factor", 1 / BYTES) if said.get("do_rescale", True) else 1.0
    if type(factor) not in (int, float) or not (factor > 0 and math.isfinite(factor)):
        _refuse(path, f"rescale_factor={factor!r} (supported: a number above 0)")
    if not said.get("do_normalize", True):
        mean, std = (0.0,) * CHANNELS, (1.0,) * CHANNELS
    else:
        mean = _colours(said, "image_mean", mean, path)
        std = _colours(said, "image_std", std, path)
    if min(std) <= 0:
        _refuse(path, f"image_std={list(std)} (supported: numbers above 0)")
    most = BYTES * factor
    return {
        "pixel_mean": tuple(x / most for x in mean),
        "pixel_std": tuple(x / most for x in std),
    }


def _colours(
    said: Mapping[str, Any], name: str, default: tuple[float, ...], path: Path
) -> tuple[float, ...]:
    """Three numbers; one alone is for all of them."""
    found = said.get(name)
    if found is None:
        return default
    numbers = found if isinstance(found, list) else [found] * CHANNELS
    known = all(type(x) in (int, float) and math.isfinite(x) for x in numbers)
    if not known or len(numbers) != CHANNELS:
        _refuse(path, f"{name}={found!r} (supported: {CHANNELS} numbers)")
    return tuple(float(x) for x in numbers)


def _refuse(path: Path, what: str) -> Any:
    raise CheckpointError(f"{path} prepares pictures as we cannot: {what}")


def written(processor: str, config: PictureConfig, data: DataSettings) -> dict[str, Any]:
    """What the file shall say for a model and the ``data`` of its recipe.

    A picture that we cut or pad to a square is squashed there: their processors have neither.
    """
    side = config.image_size
    size: dict[str, int | None] = {"height": side, "width": side}
    if data.fit == "keep":
        size = {"shortest_edge": side, "longest_edge": data.longest_edge}
    return {
        "image_processor_type": processor,
        "do_resize": True,
        "size": size,
        "resample": THEIR_RESAMPLING[data.resample],
        "do_rescale": True,
        "rescale_factor": 1 / BYTES,
        "do_normalize": True,
        "image_mean": list(config.pixel_mean),
        "image_std": list(config.pixel_std),
    }


def squashed(data: DataSettings) -> tuple[str, ...]:
    """What a user should know of pictures that are not square, once a run is exported."""
    if data.fit in ("squash", "keep"):
        return ()
    return (
        f"data.fit={data.fit} has no counterpart there: pictures that are not square will be "
        "squashed",
    )
