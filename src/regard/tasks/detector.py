"""A trained detector: what it finds in pictures, how well, and where its queries look."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from typing_extensions import override

from regard.checkpoints.run_folder import RunFolder
from regard.core.errors import DataError
from regard.core.numbers import counted
from regard.core.registry import did_you_mean
from regard.data.picture_boxes import fitted_boxes, original_boxes, seen_boxes
from regard.data.picture_records import BoxedPicture
from regard.data.records import Fit
from regard.evaluation.detection import Boxes
from regard.evaluation.metrics import computed
from regard.evaluation.saliency import Masks, pointing_accuracy
from regard.functional.boxes import to_corners, to_middles
from regard.inspection.capture import watch
from regard.inspection.edits import edited
from regard.inspection.records import recorded_call
from regard.models.detection import Detections, Detector, chances
from regard.tasks import edits
from regard.tasks.base import Evaluation
from regard.tasks.classification import Labels
from regard.tasks.look import Choice, Look, Prediction, TopChoices
from regard.tasks.picture_run import READ_AT_ONCE, PictureRun, as_picture, is_one
from regard.tasks.recipe import Recipe
from regard.tasks.texts import PatchGrid, Reading
from regard.text.specials import UNKNOWN_ID
from regard.training.distributed import divided
from regard.training.set_prediction import NO_OBJECT, detection_losses, match
from regard.visual.payload import Axis

METRICS = ("ap", "ap50")
"""Of a validation, beside the loss."""
SURE = 0.5
"""From which chance on an object is told."""
FINE = 8
"""Pixels of a cell's side, where boxes are compared with cells."""
NOTHING = "·"
"""A query that found nothing, where queries have names."""


class Found(NamedTuple):
    """An object in a picture."""

    label: str
    score: float
    """How likely it is."""
    box: tuple[float, float, float, float]
    """Left, top, right, bottom, in pixels of the picture as it was given."""


class FoundObjects(NamedTuple):
    """What is in a picture of so many pixels, the surest first."""

    width: int
    height: int
    objects: list[Found]


class Said(NamedTuple):
    """What all queries say of some pictures, the surest first."""

    corners: NDArray[np.float32]
    """(B, Q, 4) as shares of the sides of the pictures as the model saw them."""
    labels: NDArray[np.int64]
    """(B, Q)"""
    scores: NDArray[np.float32]
    """(B, Q)"""


def said(found: Detections, classes: str) -> Said:
    """The likeliest label of every query, and its box, after the last layer."""
    scores, labels = chances(found.logits[-1], classes).max(dim=-1)
    order = scores.argsort(dim=-1, descending=True, stable=True)  # (B, Q)
    corners = to_corners(found.boxes[-1]).clamp(0, 1)
    corners = corners.gather(1, order.unsqueeze(-1).expand(-1, -1, 4))
    ordered = (corners, labels.gather(1, order), scores.gather(1, order))
    return Said(*(x.cpu().numpy() for x in ordered))


class PictureBatch(NamedTuple):
    """Pictures as a detector reads them, and what is in them."""

    pixels: Tensor
    """(B, 3, H, W)"""
    labels: Tensor
    """(B, M); NO_OBJECT is padding."""
    boxes: Tensor
    """(B, M, 4): middle and size."""


@torch.inference_mode()
def judged(model: Detector, batches: Iterable[PictureBatch]) -> tuple[float, list[Boxes]]:
    """The loss a picture, of the group of queries that is kept, and what was found in each."""
    classes = model.config.classes

    def judge(batch: PictureBatch) -> tuple[float, list[Boxes]]:
        output = model(batch.pixels)
        losses = detection_losses(output, batch.labels, batch.boxes, classes=classes)
        return losses.total.item(), [*map(Boxes, *said(output, classes))]

    losses, each = zip(*divided(batches, judge), strict=True)
    found = [boxes for some in each for boxes in some]
    return sum(losses) / len(found), found


# Which sides the rows and the columns of an attention are: cells, and queries.
AXES = {
    "encoder.self": {"rows": "source", "columns": "source"},
    "decoder.self": {"rows": "target", "columns": "target"},
    "decoder.cross": {"rows": "target", "columns": "source"},
}


def _ids_of(ids: Mapping[str, Any], name: str) -> tuple[Any, Any]:
    """Those of an attention's rows and columns."""
    return ids[AXES[name]["rows"]], ids[AXES[name]["columns"]]


@dataclass(frozen=True, slots=True, repr=False)
class DetectorRun(PictureRun):
    """A trained detector with all it needs to be used."""

    folder: RunFolder
    recipe: Recipe
    model: Detector
    device: torch.device
    labels: Labels

    def detect(self, pictures: Any, *, threshold: float = SURE) -> Any:
        """The objects of a picture, the surest first; of a list, a list of such lists.

        A picture is a path, bytes, an image or an array; boxes are in its pixels. What is less
        likely than ``threshold`` is left out.
        """
        many = [pictures] if is_one(pictures) else pictures
        found = [one.objects for one in self.found(many, threshold)]
        return found[0] if is_one(pictures) else found

    def found(self, pictures: Sequence[Any], threshold: float = SURE) -> Iterator[FoundObjects]:
        """Of each picture its size and its objects."""
        fit = self.recipe.data.fit
        for i in range(0, len(pictures), READ_AT_ONCE):
            originals = [as_picture(one).pixels() for one in pictures[i : i + READ_AT_ONCE]]
            said = map(self.said, self.batches(originals))
            each = chain.from_iterable(zip(*one, strict=True) for one in said)
            for pixels, (corners, labels, scores) in zip(originals, each, strict=True):
                height, width = pixels.shape[:2]
                boxes = original_boxes(corners, width / height, fit)
                objects = [
                    Found(self.labels.names[label], float(score), _pixels(box, width, height))
                    for box, label, score in zip(boxes, labels, scores, strict=True)
                    if score >= threshold
                ]
                yield FoundObjects(width, height, objects)

    @torch.inference_mode()
    def said(self, pixels: Tensor) -> Said:
        """What all queries say of fitted pictures (B, 3, H, W)."""
        return said(self.model(pixels), self.model.config.classes)

    def explain(self, picture: Any, edit: Any = (), *, threshold: float = SURE) -> Look:
        """Where every query looks while a picture is read, and what it finds there."""
        changes = edits.edits_from(edit)
        edits.refuse_words(changes)
        seen = self.seen(picture, changes)
        with edited(self.model, edits.of_model(changes)):
            output: Any
            output, found = recorded_call(self.model, self.pixels(seen[None]))
        edits.check_keys(changes, found)
        shares = chances(output.logits[-1, 0], self.model.config.classes).tolist()  # (Q, C)
        choices = [self.choices(row) for row in shares]
        corners = to_corners(output.boxes[-1, 0]).clamp(0, 1).tolist()
        names = tuple(
            f"{best.text} {best.probability:.2f}" if best.probability >= threshold else NOTHING
            for best, *_ in choices
        )
        objects = sorted(
            (i for i, name in enumerate(names) if name != NOTHING),
            key=lambda i: -choices[i][0].probability,
        )
        grid = self.patches(grid=self.config.grid_of(*seen.shape[:2]))
        return Look.of(
            found,
            changes,
            source="",
            source_tokens=grid.labels,
            target_tokens=names,
            answer=", ".join(names[i] for i in objects),
            task=self.task,
            outcome=Prediction(
                "boxes",
                counted(len(objects), "object"),
                tuple(TopChoices((i, i + 1), tuple(choices[i])) for i in objects),
            ),
            axes=AXES,
            sides={"source": grid, "target": Axis(names)},
            picture=seen,
            boxes=tuple(
                {
                    "label": choices[i][0].text,
                    "probability": choices[i][0].probability,
                    "box": corners[i],
                    "row": i,
                }
                for i in objects
            ),
        )

    def choices(self, shares: Sequence[float]) -> list[Choice]:
        """Labels of one query, the likeliest first."""
        return sorted(map(Choice, self.labels.names, shares), key=lambda one: -one.probability)

    @override
    def scored(self, examples: Sequence[BoxedPicture], split: str) -> Evaluation:
        """AP and AP50 in the pictures as they were given: what was cut off cannot be found."""
        fit, numbers = self.recipe.data.fit, self.labels.numbers
        loss, found = judged(self.model, self._batches(examples))
        pairs = zip(found, examples, strict=True)
        found = [replace(x, corners=original_boxes(x.corners, y.aspect, fit)) for x, y in pairs]
        there = [Boxes(one.boxes, numbers_of(one, numbers)) for one in examples]
        scores = {**computed(METRICS, found, there), "loss": loss}
        return self.evaluation(split, len(examples), scores, [self._told(one) for one in found])

    def _batches(self, examples: Sequence[BoxedPicture]) -> Iterator[PictureBatch]:
        fit, numbers = self.recipe.data.fit, self.labels.numbers
        labels, boxes = (
            torch.from_numpy(column_of(name, examples, numbers=numbers, fit=fit)).to(self.device)
            for name in ("labels", "boxes")
        )
        n = 0
        for pixels in self.batches(examples):
            rows = slice(n, n + len(pixels))
            yield PictureBatch(pixels, labels[rows], boxes[rows])
            n += len(pixels)

    def readings(self, examples: Sequence[BoxedPicture]) -> Iterator[Reading]:
        """Pictures in batches, as heads are measured on them."""
        for pixels in self.batches(examples):
            rows, columns = grid = self._grid(pixels)
            patches = {"encoder.self": PatchGrid(grid, pixels.shape[-1] / columns)}
            sizes = {"source": rows * columns, "target": self.model.config.n_queries}
            ids = {side: np.full((len(pixels), n), UNKNOWN_ID) for side, n in sizes.items()}
            yield Reading((pixels,), partial(_ids_of, ids), patches)

    @torch.inference_mode()
    def pointing(self, examples: Sequence[BoxedPicture]) -> dict[str, dict[Any, float]]:
        """``pointing`` -> head -> how often the query that is matched with an object looks at it.

        That is where its largest weight lies: on a cell that the object's box touches.
        """
        hits: dict[str, float] = {}
        n, classes = 0, self.model.config.classes
        for pixels, labels, boxes in self._batches(examples):
            grid = self._grid(pixels)
            with watch(self.model.decoder) as views:
                output = self.model(pixels)
            row, query, one = match(
                output.logits[-1], output.boxes[-1], labels, boxes, classes=classes
            )
            if not len(row):
                continue
            n += len(row)
            there = box_masks(to_corners(boxes[row, one]).cpu().numpy(), grid)
            for (name, layer), view in views.items():
                if name == "cross":
                    seen = view.weights()[row, :, query].unflatten(-1, grid)  # (n, H, R, C)
                    for head, maps in enumerate(seen.float().cpu().numpy().swapaxes(0, 1)):
                        key = f"decoder.cross layer {layer} head {head}"
                        found = len(row) * pointing_accuracy(maps, there)
                        hits[key] = hits.get(key, 0.0) + found
        return {"pointing": {key: x / n for key, x in hits.items()}} if n else {}

    def _grid(self, pixels: Tensor) -> tuple[int, int]:
        """Rows and columns of cells of fitted pictures (B, 3, H, W)."""
        height, width = pixels.shape[-2:]
        return self.config.grid_of(height, width)

    def _told(self, found: Boxes) -> str:
        """The objects of a picture in a line: labels with their chances."""
        assert found.scores is not None
        pairs = zip(found.labels, found.scores, strict=True)
        return ", ".join(f"{self.labels.names[i]} {x:.2f}" for i, x in pairs if x >= SURE)

    @override
    def facts(self) -> dict[str, Any]:
        return {**PictureRun.facts(self), "labels": list(self.labels.names)}


def _pixels(box: Any, width: int, height: int) -> tuple[float, float, float, float]:
    """Shares -> pixels, to a tenth."""
    left, top, right, bottom = (
        round(float(x) * side, 1) for x, side in zip(box, (width, height) * 2, strict=True)
    )
    return left, top, right, bottom


def box_masks(corners: NDArray[np.float32], grid: tuple[int, int]) -> Masks:
    """Boxes (n, 4) as pixels of a picture that has eight by eight a cell: (n, 8 R, 8 C)."""
    rows, columns = ((np.arange(FINE * n) + 0.5) / (FINE * n) for n in grid)
    left, top, right, bottom = np.moveaxis(corners, 1, 0)[..., None]  # (n, 1) each
    down, across = (rows >= top) & (rows <= bottom), (columns >= left) & (columns <= right)
    return down[:, :, None] & across[:, None, :]


def numbers_of(one: BoxedPicture, numbers: Mapping[str, int]) -> NDArray[np.int64]:
    """The numbers of a picture's labels; one that training never showed is refused."""
    for label in one.labels:
        if label not in numbers:
            hint = did_you_mean(label, numbers)
            raise DataError(
                f"{one.where}: unknown label {label!r}{hint}; training showed {', '.join(numbers)}"
            )
    return np.array([numbers[label] for label in one.labels], np.int64)


def column_of(
    name: str, records: Sequence[BoxedPicture], *, numbers: Mapping[str, int], fit: Fit
) -> NDArray[Any]:
    """``labels`` (N, M) or ``boxes`` (N, M, 4), middle and size, of pictures that are square."""
    rows = []
    for one in records:
        boxes, seen = seen_boxes(fitted_boxes(one.boxes, one.aspect, fit))
        rows.append((numbers_of(one, numbers)[seen], boxes[seen]))
    most = max(1, *(len(labels) for labels, _ in rows))
    labels = np.full((len(rows), most), NO_OBJECT, np.int64)
    boxes = np.zeros((len(rows), most, 4), np.float32)
    for i, (kinds, corners) in enumerate(rows):
        labels[i, : len(kinds)] = kinds
        boxes[i, : len(kinds)] = to_middles(torch.from_numpy(corners)).numpy()
    return labels if name == "labels" else boxes
