"""Scenes as pixels: shapes painted one over the other, anti-aliased, on a noisy background.

A shape is a signed distance: negative inside, positive outside, in units of the object's radius.
So one formula paints it at any size, its edge one pixel wide.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Pixels = NDArray[np.uint8]
"""(H, W, 3)"""
Masks = NDArray[np.bool_]
"""(n_objects, H, W): where each object can be seen."""
Boxes = NDArray[np.float32]
"""(n_objects, 4): left, top, right, bottom, as shares of the width and the height."""
Distance = Callable[[Floats, Floats], Floats]
"""Points (x, y), the radius being 1 and y pointing down -> how far outside they lie."""

COLOURS = {
    "red": ((214, 39, 40), (86, 16, 16)),
    "green": ((44, 150, 52), (18, 60, 21)),
    "blue": ((38, 82, 214), (15, 33, 86)),
    "yellow": ((244, 214, 40), (110, 90, 16)),
    "purple": ((138, 43, 180), (55, 17, 72)),
    "turquoise": ((40, 205, 205), (16, 86, 86)),
    "white": ((250, 250, 250), (176, 176, 176)),
    "black": ((14, 14, 14), (84, 84, 84)),
}
"""Name -> red, green and blue, and what they are in turn with where an object is striped."""
SMALL, BIG = 0.095, 0.175
"""Mean radius of objects, as a share of the picture's side."""
STRIPE = 0.45
"""Width of a stripe, in radii of a small object."""
NOISE = 0.045
"""Standard deviation of each pixel of the background, colours being from 0 to 1."""


@dataclass(frozen=True, slots=True)
class SceneObject:
    """One shape in a picture; lengths are shares of the picture's side."""

    shape: str
    colour: str
    big: bool
    striped: bool
    x: float
    """Of the centre, from the left."""
    y: float
    """Of the centre, from the top."""
    radius: float
    turn: float
    """In radians, clockwise."""


@dataclass(frozen=True, slots=True)
class Scene:
    """Objects, each in front of those before it, and the seed of the background."""

    objects: tuple[SceneObject, ...]
    seed: int


def _circle(x: Floats, y: Floats) -> Floats:
    return np.hypot(x, y) - 0.95


def _square(x: Floats, y: Floats) -> Floats:
    return _rectangle(x, y, 0.82, 0.82)


def _triangle(x: Floats, y: Floats) -> Floats:
    slopes = (np.pi / 2, np.pi * 7 / 6, np.pi * 11 / 6)
    sides = [np.cos(angle) * x + np.sin(angle) * y for angle in slopes]
    return np.max(sides, axis=0) - 0.56


def _star(x: Floats, y: Floats) -> Floats:
    """Five points at distance 1.1; between them the edge comes back to 0.45."""
    fifth = 2 * np.pi / 5
    angle = np.abs((np.arctan2(x, -y) + fifth / 2) % fifth - fifth / 2)
    radius = np.hypot(x, y)
    tip, inner = np.array([1.1, 0.0]), 0.45 * np.array([np.cos(fifth / 2), np.sin(fifth / 2)])
    along = inner - tip
    normal = np.array([along[1], -along[0]]) / np.hypot(*along)
    return (radius * np.cos(angle) - tip[0]) * normal[0] + radius * np.sin(angle) * normal[1]


def _cross(x: Floats, y: Floats) -> Floats:
    return np.minimum(_rectangle(x, y, 0.95, 0.32), _rectangle(x, y, 0.32, 0.95))


def _ring(x: Floats, y: Floats) -> Floats:
    return np.abs(np.hypot(x, y) - 0.7) - 0.26


def _heart(x: Floats, y: Floats) -> Floats:
    """A square that stands on a corner, and a circle over each of its upper sides."""
    a = 0.58
    u, v = (x - y - 0.25) / np.sqrt(2), (-x - y - 0.25) / np.sqrt(2)
    circles = np.minimum(np.hypot(u - a, v), np.hypot(u, v - a)) - a
    return np.minimum(_rectangle(u, v, a, a), circles)


def _moon(x: Floats, y: Floats) -> Floats:
    """A circle without another one to its right."""
    return np.maximum(np.hypot(x, y) - 1.0, 0.8 - np.hypot(x - 0.5, y))


def _rectangle(x: Floats, y: Floats, width: float, height: float) -> Floats:
    return np.maximum(np.abs(x) - width, np.abs(y) - height)


SHAPES: dict[str, Distance] = {
    "circle": _circle,
    "square": _square,
    "triangle": _triangle,
    "star": _star,
    "cross": _cross,
    "ring": _ring,
    "heart": _heart,
    "moon": _moon,
}


def paint(scene: Scene, size: int = 64) -> Pixels:
    """The picture of a scene, ``size`` × ``size``."""
    picture = _background(scene.seed, size)
    for one in scene.objects:
        cover = coverage(one, size)[..., None]
        picture = picture * (1 - cover) + _texture(one, size) * cover
    return (picture * 255).round().clip(0, 255).astype(np.uint8)


def visible(scene: Scene, size: int = 64) -> Masks:
    """Where each object is seen: it covers most of the pixel, and nothing in front of it does."""
    return uncovered([coverage(one, size) >= 0.5 for one in scene.objects])


def uncovered(masks: Sequence[Masks]) -> Masks:
    """What those after it leave to be seen of each mask (H, W)."""
    seen = np.array(masks)
    for i in range(len(masks) - 1):
        seen[i] &= ~np.any(masks[i + 1 :], axis=0)
    return seen


def boxes(masks: Masks) -> Boxes:
    """Around what is seen of each object, which must be something."""
    height, width = masks.shape[1:]
    found = []
    for mask in masks:
        rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
        left, right = columns[0] / width, (columns[-1] + 1) / width
        found.append((left, rows[0] / height, right, (rows[-1] + 1) / height))
    return np.array(found, np.float32)


def coverage(one: SceneObject, size: int) -> Floats:
    """(size, size): how much of each pixel the object covers, from 0 to 1."""
    distance = SHAPES[one.shape](*_local(one, size))
    return np.clip(0.5 - distance * one.radius * size, 0, 1)


def _local(one: SceneObject, size: int) -> tuple[Floats, Floats]:
    """Pixels as the object sees them: its centre at (0, 0), its radius 1, itself upright."""
    middles = (np.arange(size) + 0.5) / size
    x, y = (middles - one.x) / one.radius, (middles - one.y)[:, None] / one.radius
    cos, sin = np.cos(one.turn), np.sin(one.turn)
    return cos * x + sin * y, cos * y - sin * x


def _texture(one: SceneObject, size: int) -> Floats:
    """(size, size, 3): the object's colour, in turn with its other one in stripes."""
    colour, other = np.array(COLOURS[one.colour]) / 255
    if not one.striped:
        return np.broadcast_to(colour, (size, size, 3))
    x, y = _local(one, size)
    phase = (x + y) / np.sqrt(2) * one.radius / (SMALL * STRIPE)
    edge = size * SMALL * STRIPE
    stripe = np.clip(0.5 + (np.abs(phase % 2 - 1) - 0.5) * edge, 0, 1)[..., None]
    return colour * stripe + other * (1 - stripe)


def _background(seed: int, size: int) -> Floats:
    """(size, size, 3): a grey that changes slowly from corner to corner, and noise."""
    rng = np.random.RandomState(seed)  # its stream is the same with every numpy
    corners = 0.52 + 0.14 * (rng.random_sample((2, 2, 3)) - 0.5)
    share = (np.arange(size) + 0.5) / size
    rows = corners[0] * (1 - share[:, None, None]) + corners[1] * share[:, None, None]
    slow = rows[:, None, 0] * (1 - share[:, None]) + rows[:, None, 1] * share[:, None]
    noise = rng.random_sample((size, size, 3)) - 0.5
    return slow + noise * NOISE * np.sqrt(12)
