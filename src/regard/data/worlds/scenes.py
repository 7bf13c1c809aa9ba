"""The world ``scenes``: pictures of coloured shapes that know what is where.

One to five shapes lie on a noisy background, some partly behind others. Each scene has captions in
English and French, questions with answers, boxes and masks, and for every word the objects it is
about. No scene stands in two splits. Some combinations of colour and shape are kept out of all
splits but ``combinations``, whose scenes each show one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from hashlib import blake2b

from regard.data.worlds.scene_language import MOST_OBJECTS, Caption, Language, captions
from regard.data.worlds.scene_pixels import (
    BIG,
    COLOURS,
    SHAPES,
    SMALL,
    Masks,
    Pixels,
    Scene,
    SceneObject,
    coverage,
    paint,
    uncovered,
    visible,
)
from regard.data.worlds.scene_questions import SceneQuestion, questions
from regard.data.worlds.stable_random import StableRandom

N_TRAIN, N_TEST = 20_000, 1000
"""Scenes of ``train``; of each of the others."""
HELD_OUT = frozenset(
    (colour, shape)
    for i, colour in enumerate(COLOURS)
    for j, shape in enumerate(SHAPES)
    if (3 * i + j) % 8 == 0
)
"""(colour, shape): one of each colour and one of each shape."""
LEAST_SEEN = 0.7
"""Share of an object's pixels that others leave uncovered."""
TILT = 0.3
"""Objects are turned by at most so much either way, in radians."""
_TENTHS = ("test", "valid", *["train"] * 8)


@dataclass(frozen=True)
class SceneRecord:
    """A scene with all that is known of it; pixels and texts are made when they are asked for."""

    scene: Scene
    size: int = 64
    """Pixels of a side."""

    @property
    def where(self) -> str:
        """For messages."""
        return f"scene {self.scene.seed}"

    @property
    def fingerprint(self) -> bytes:
        """All that the pixels depend on."""
        return repr(self.scene).encode()

    @cached_property
    def captions(self) -> dict[Language, tuple[Caption, ...]]:
        """Five in each language."""
        return captions(self.scene, self.scene.seed)

    @cached_property
    def questions(self) -> list[SceneQuestion]:
        """One of each kind that the scene allows."""
        return questions(self.scene, self.scene.seed + 1)

    def pixels(self) -> Pixels:
        """(size, size, 3)"""
        return paint(self.scene, self.size)

    def masks(self) -> Masks:
        """(n_objects, size, size)"""
        return visible(self.scene, self.size)


def build_scenes(
    *, seed: int = 0, n_train: int = N_TRAIN, n_test: int = N_TEST, size: int = 64
) -> dict[str, tuple[SceneRecord, ...]]:
    """``train``, ``valid``, ``test`` and ``combinations``."""
    wanted = {"train": n_train, "valid": n_test, "test": n_test, "combinations": n_test}
    found: dict[str, dict[Scene, SceneRecord]] = {name: {} for name in wanted}
    for scene in _scenes(seed):
        name = _split_of(scene)
        if len(found[name]) < wanted[name]:
            found[name][scene] = SceneRecord(scene, size)
        elif all(len(found[name]) == n for name, n in wanted.items()):
            return {name: tuple(some.values()) for name, some in found.items()}
    raise AssertionError("there are always more scenes")


def _split_of(scene: Scene) -> str:
    """Decided by the objects alone: scenes that differ in their background only stay together."""
    if any((one.colour, one.shape) in HELD_OUT for one in scene.objects):
        return "combinations"
    digest = blake2b(repr(scene.objects).encode(), digest_size=2).digest()
    return _TENTHS[int.from_bytes(digest, "big") % len(_TENTHS)]


def _scenes(seed: int) -> Iterator[Scene]:
    draw = StableRandom(seed)
    while True:
        n = 1 + int(draw.uniform(0, MOST_OBJECTS))
        objects: list[SceneObject] = []
        while len(objects) < n:
            one = _object(draw)
            if _all_seen((*objects, one)):
                objects.append(one)
        yield Scene(tuple(objects), int(draw.uniform(0, 2**31)))


def _object(draw: StableRandom) -> SceneObject:
    big = draw.chance(0.5)
    radius = (BIG if big else SMALL) * draw.uniform(0.9, 1.1)
    colour, shape = draw.one([*COLOURS]), draw.one([*SHAPES])
    if (colour, shape) in HELD_OUT and draw.chance(0.8):  # they are needed in one split alone
        colour = draw.one([c for c in COLOURS if (c, shape) not in HELD_OUT])
    x, y = (draw.uniform(radius, 1 - radius) for _ in range(2))
    turn = draw.uniform(-TILT, TILT)
    return SceneObject(
        shape,
        colour,
        big,
        draw.chance(0.3),
        round(x, 3),
        round(y, 3),
        round(radius, 3),
        round(turn, 3),
    )


def _all_seen(objects: tuple[SceneObject, ...]) -> bool:
    """Whether enough is seen of every object, and none is lost in another of its colour."""
    last = objects[-1]
    near = [
        one
        for one in objects[:-1]
        if (one.x - last.x) ** 2 + (one.y - last.y) ** 2 < (1.1 * (one.radius + last.radius)) ** 2
    ]
    if any(one.colour == last.colour for one in near):
        return False
    if not near:
        return True
    masks = [_mask(one) for one in objects]
    pairs = zip(uncovered(masks), masks, strict=True)
    return all(seen.sum() >= LEAST_SEEN * whole.sum() for seen, whole in pairs)


@lru_cache(maxsize=2 * MOST_OBJECTS)
def _mask(one: SceneObject) -> Masks:
    """(64, 64)"""
    return coverage(one, 64) >= 0.5
