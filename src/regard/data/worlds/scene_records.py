"""The world ``scenes`` as records: labels, captions, questions, boxes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from regard.data.picture_records import (
    BoxedPicture,
    CaptionedPicture,
    LabelledPicture,
    PictureQuestion,
    PictureRecord,
)
from regard.data.worlds.scene_pixels import Masks, boxes
from regard.data.worlds.scenes import SceneRecord, build_scenes

COUNTS = ("one", "two", "three", "four", "five")


def scene_records(kind: str, language: str, **size: int) -> dict[str, tuple[PictureRecord, ...]]:
    """Splits of records of a kind; the picture of each is its scene, which knows the rest."""
    return {
        name: tuple(record for scene in scenes for record in _MADE[kind](scene, language))
        for name, scenes in build_scenes(**size).items()
    }


def _labels(scene: SceneRecord, _language: str) -> Iterable[LabelledPicture]:
    """The class of a scene is how many objects are in it."""
    label = COUNTS[len(scene.scene.objects) - 1]
    yield LabelledPicture(picture=scene, where=scene.where, label=label)


def _captions(scene: SceneRecord, language: str) -> Iterable[CaptionedPicture]:
    texts = tuple(one.text for one in scene.captions[language])  # type: ignore[index]
    yield CaptionedPicture(picture=scene, where=scene.where, captions=texts)


def _questions(scene: SceneRecord, _language: str) -> Iterable[PictureQuestion]:
    for one in scene.questions:
        said = {"question": one.text, "answer": one.answer, "kind": one.kind}
        yield PictureQuestion(picture=scene, where=scene.where, **said)


def _boxes(scene: SceneRecord, _language: str) -> Iterable[BoxedPicture]:
    """The class of an object is its shape."""
    labels = tuple(one.shape for one in scene.scene.objects)
    found = boxes(scene.masks())
    yield BoxedPicture(picture=scene, where=scene.where, boxes=found, labels=labels)


_MADE: Mapping[str, Callable[[SceneRecord, str], Iterable[Any]]] = {
    "image_label": _labels,
    "caption": _captions,
    "image_question": _questions,
    "boxes": _boxes,
}


def mask_of(record: PictureQuestion) -> Masks | None:
    """(H, W): the objects that a question's words are about; None where it is of no scene."""
    scene = record.picture
    if not isinstance(scene, SceneRecord):
        return None
    asked = next(one for one in scene.questions if one.text == record.question)
    objects = sorted({number for word in asked.about for number in word})
    return np.any(scene.masks()[objects], axis=0, keepdims=True)[0]
