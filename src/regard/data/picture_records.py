"""Records with a picture: one with a label, with captions, with a question, or with boxes."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from regard.data.pictures import Picture, content_of

Boxes = NDArray[np.float32]
"""(n, 4): left, top, right, bottom, as shares of the picture's width and height."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureRecord:
    """A picture with something that is known of it."""

    picture: Picture
    where: str = field(default="", compare=False)
    """``file:line``, for messages."""
    split: str = ""
    """To which the file says it belongs; empty where it says nothing."""

    @property
    def source(self) -> str:
        """A picture is either learned from or scored: all that is said of it stays together."""
        return content_of(self.picture).hex()

    @property
    def target(self) -> str:
        """The picture, too."""
        return self.source


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledPicture(PictureRecord):
    """A picture of a class."""

    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptionedPicture(PictureRecord):
    """A picture and what may be said of it."""

    captions: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureQuestion(PictureRecord):
    """A question about a picture, and its answer."""

    question: str
    answer: str
    kind: str = ""
    """Of the question, where accuracies are told apart by it."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BoxedPicture(PictureRecord):
    """A picture, and where in it is what."""

    boxes: Boxes
    labels: tuple[str, ...]
    aspect: float = 1.0
    """Width / height of the picture."""
