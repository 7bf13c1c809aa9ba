"""The verbs of the tasks of pictures. Importing them needs neither torch nor pydantic.

On the command line a picture is a file; over HTTP it is a data URL, and no file is ever read.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from regard.tasks.base import Answer, Verb

if TYPE_CHECKING:
    from pydantic import BaseModel


class PictureVerb(Verb):
    """A picture in."""

    unit = "picture"
    chunk = 16

    @property
    @override
    def request(self) -> type[BaseModel]:
        from regard.tasks.requests import PictureRequest

        return PictureRequest

    @override
    def check(self, run: Any, request: Any, at_most: int) -> None:
        run.fitted(request.image)

    @override
    def from_line(self, run: Any, line: str, options: Any) -> Any:
        return self.request.model_construct(image=Path(line))

    @override
    def as_record(self, request: Any, answer: Answer, options: Any) -> Answer:
        return {"image": str(request.image), **answer}


class ClassifyPicture(PictureVerb):
    """A picture in, its label out."""

    name, task, wants = "classify", "image_classification", "one of image_classification"
    summary = "Label pictures: `label TAB probability`, one by one."
    doc = "The label of a picture, and how likely each label is."

    @override
    def answer(self, run: Any, requests: Sequence[Any]) -> list[Answer]:
        answers: list[Answer] = []
        for shares in run.probabilities([one.image for one in requests]).tolist():
            ordered = sorted(zip(shares, run.labels.names, strict=True), reverse=True)
            labels = [{"label": name, "probability": share} for share, name in ordered]
            answers.append({**labels[0], "labels": labels})
        return answers

    @override
    def as_line(self, request: Any, answer: Answer, options: Any) -> str:
        return f"{answer['label']}\t{answer['probability']:.4f}"


CLASSIFY_PICTURE = ClassifyPicture()
