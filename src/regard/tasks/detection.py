"""Detection: which objects are in a picture, and where, as boxes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from typing_extensions import override

from regard.checkpoints.run_folder import RunFolder
from regard.core.errors import CheckpointError, ConfigError, DataError
from regard.core.numbers import counted
from regard.core.registry import did_you_mean
from regard.data.batch import Batch
from regard.data.picture_boxes import LEAST_SEEN, fitted_boxes, original_boxes, seen_boxes
from regard.data.picture_records import BoxedPicture
from regard.data.pictures import fitted
from regard.data.records import Fit
from regard.evaluation.detection import Boxes
from regard.evaluation.metrics import computed, values
from regard.functional.boxes import replaced, to_corners, to_middles
from regard.inspection.edits import edited
from regard.inspection.records import recorded_call
from regard.models.detection import DetectionConfig, Detections, Detector, chances
from regard.models.presets import build, resolve_for
from regard.tasks import edits
from regard.tasks.base import TASKS, Evaluation, Form, Scoring
from regard.tasks.classification import LABELS, Labels, load_labels
from regard.tasks.look import Choice, Look, Prediction, TopChoices
from regard.tasks.opening import check_memory, open_run
from regard.tasks.picture_verbs import DETECT
from regard.tasks.pictures import (
    PICTURE_EDITS,
    PICTURE_VIEWS,
    READ_AT_ONCE,
    Augmenting,
    PictureRun,
    PictureTask,
    PreparedPictures,
    as_picture,
    image_size,
    is_one,
)
from regard.tasks.recipe import Recipe
from regard.tasks.texts import TEXTS_INSTEAD, PatchGrid, Reading, Subject, check_data
from regard.text.specials import UNKNOWN_ID
from regard.training.distributed import unwrapped
from regard.training.flops import CallFlops
from regard.training.losses import Losses
from regard.training.set_prediction import NO_OBJECT, detection_losses
from regard.visual.payload import Axis

METRICS = ("ap", "ap50")
"""Of a validation, beside the loss."""
SURE = 0.5
"""From which chance on an object is told."""
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
    """(B, 3, S, S)"""
    labels: Tensor
    """(B, M); NO_OBJECT is padding."""
    boxes: Tensor
    """(B, M, 4): middle and size."""


@torch.inference_mode()
def judged(model: Detector, batches: Iterable[PictureBatch]) -> tuple[float, list[Boxes]]:
    """The loss a picture, of the group of queries that is kept, and what was found in each."""
    loss, found, classes = 0.0, list[Boxes](), model.config.classes
    for pixels, labels, boxes in batches:
        output = model(pixels)
        loss += detection_losses(output, labels, boxes, classes=classes).total.item()
        found += map(Boxes, *said(output, classes))
    return loss / len(found), found


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
        size, fit = self.config.image_size, self.recipe.data.fit
        for i in range(0, len(pictures), READ_AT_ONCE):
            originals = [as_picture(one).pixels() for one in pictures[i : i + READ_AT_ONCE]]
            seen = np.stack([fitted(one, size, fit) for one in originals])
            said = zip(originals, *self.said(self.pixels(seen)), strict=True)
            for pixels, corners, labels, scores in said:
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
        """What all queries say of fitted pictures (B, 3, S, S)."""
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
        choices = [self._choices(row) for row in shares]
        corners = to_corners(output.boxes[-1, 0]).clamp(0, 1).tolist()
        names = tuple(
            f"{best.text} {best.probability:.2f}" if best.probability >= threshold else NOTHING
            for best, *_ in choices
        )
        objects = sorted(
            (i for i, name in enumerate(names) if name != NOTHING),
            key=lambda i: -choices[i][0].probability,
        )
        grid = self.patches()
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

    def _choices(self, shares: Sequence[float]) -> list[Choice]:
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
        rows, columns = self.config.grid
        sizes = {"source": rows * columns, "target": self.model.config.n_queries}
        patches = {"encoder.self": PatchGrid((rows, columns), self.cell)}
        for pixels in self.batches(examples):
            ids = {side: np.full((len(pixels), n), UNKNOWN_ID) for side, n in sizes.items()}
            yield Reading((pixels,), partial(_ids_of, ids), patches)

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


def numbers_of(one: BoxedPicture, numbers: Mapping[str, int]) -> NDArray[np.int64]:
    """The numbers of a picture's labels; one that training never showed is refused."""
    for label in one.labels:
        if label not in numbers:
            hint = did_you_mean(label, numbers)
            raise DataError(
                f"{one.where}: unknown label {label!r}{hint}; training showed {', '.join(numbers)}"
            )
    return np.array([numbers[label] for label in one.labels], np.int64)


# ------------------------------------------------------------------ training


class SetLoss(Augmenting):
    """Matched with what is there, one to one: the losses of classes and boxes, by pictures."""

    def __init__(self, recipe: Recipe, *, compiled: bool = False) -> None:
        super().__init__(recipe)
        self._call = torch.compile(_call) if compiled else _call

    @override
    def augmented(self, batch: Batch, device: torch.device) -> Batch:
        """Boxes go where their pixels go; those that are hardly seen any more are left out."""
        made = super().augmented(batch, device)
        if self.augmentation is None:
            return made
        labels, boxes = moved_boxes(made.labels, made.boxes, made.placements)
        return replace(made, tensors={**made.tensors, "labels": labels, "boxes": boxes})

    def __call__(self, model: Detector, batch: Batch) -> Losses:
        """Of a batch."""
        config = unwrapped(model).config
        n_groups = config.n_groups if model.training else 1
        return detection_losses(
            self._call(model, batch.pixels),
            batch.labels,
            batch.boxes,
            classes=config.classes,
            n_groups=n_groups,
        )


def _call(model: Detector, pixels: Tensor) -> Detections:
    return model(pixels)


def moved_boxes(labels: Tensor, boxes: Tensor, placements: Tensor) -> tuple[Tensor, Tensor]:
    """Labels (B, M) and boxes (B, M, 4) of pictures that were mirrored, shifted or enlarged.

    What is still seen of a box is its new box; those that are hardly seen become padding.
    """
    whole = replaced(to_corners(boxes), placements)
    corners = whole.clamp(0, 1)
    seen = (labels != NO_OBJECT) & (_area(corners) >= LEAST_SEEN * _area(whole))
    order = seen.int().argsort(dim=1, descending=True, stable=True)  # padding stands at the end
    labels = labels.masked_fill(~seen, NO_OBJECT).gather(1, order)
    return labels, to_middles(corners.gather(1, order.unsqueeze(-1).expand(-1, -1, 4)))


def _area(corners: Tensor) -> Tensor:
    return (corners[..., 2:] - corners[..., :2]).prod(dim=-1)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedDetection(PreparedPictures):
    """Pictures with boxes, and a model that finds them."""

    takes, criteria = "boxes", ("loss", *METRICS)
    labels: Labels

    @property
    @override
    def same_shapes(self) -> bool:
        return self.device.type == "cuda"

    @property
    @override
    def captured(self) -> bool:
        """Never: every update waits for the host, which matches."""
        return False

    @property
    @override
    def size(self) -> Mapping[str, int]:
        n = sum(len(one.labels) for one in self.data.splits["train"])
        pictures = len(self.train.pixels)
        return {"training pictures": pictures, "boxes": n, "labels": len(self.labels.names)}

    @override
    def objective(self) -> SetLoss:
        return SetLoss(self.recipe, compiled=self.compiled)

    @override
    def validation(self) -> Scoring:
        """The loss of the group that is kept, and AP; in the pictures as the model sees them."""
        batches = [PictureBatch(x.pixels, x.labels, x.boxes) for x in self.valid_batches()]
        there = [one for batch in batches for one in _there(batch)]

        def scores(model: Detector) -> Mapping[str, float]:
            loss, found = judged(model, batches)
            return {"loss": loss, **values(METRICS, found, there)}

        return Scoring(scores)

    @override
    def save(self, folder: Path) -> None:
        self.labels.save(folder)


def _there(batch: PictureBatch) -> Iterator[Boxes]:
    """What is in each picture of a batch."""
    for labels, boxes in zip(batch.labels.cpu(), batch.boxes.cpu(), strict=True):
        real = labels != NO_OBJECT
        yield Boxes(to_corners(boxes[real]).numpy(), labels[real].numpy())


class DetectionTask(PictureTask):
    """Pictures with boxes, and a model that finds them."""

    name, records = "detection", "boxes"
    verbs, config, attends = (DETECT,), DetectionConfig, "detr2020"
    files = (LABELS,)
    loss_unit = "a {}"
    smallest: ClassVar[Mapping[str, Any]] = {"n_labels": 1, "image_size": 64}

    @override
    def prepare(
        self,
        recipe: Recipe,
        device: torch.device,
        *,
        begun: Path | None = None,
        cache: Path | None = None,
    ) -> PreparedDetection:
        _check_augmentation(recipe)
        data = self.load_data(recipe)
        labels = _labels(data.splits["train"]) if begun is None else load_labels(begun)
        torch.manual_seed(recipe.train.seed)
        sizes = {"n_labels": len(labels.names), "image_size": image_size(recipe, data)}
        config = resolve_for(self.name, DetectionConfig, recipe.model, **sizes)
        assert isinstance(config, DetectionConfig)
        _check_queries(config, data.splits["train"])
        check_memory(config, device)
        model = build(config)
        columns = {
            name: partial(column_of, name, numbers=labels.numbers, fit=recipe.data.fit)
            for name in ("labels", "boxes")
        }
        return PreparedDetection(
            recipe=recipe,
            config=config,
            formula=CallFlops(model),
            model=model.to(device),
            notes=data.notes,
            device=device,
            labels=labels,
            **self.tables(recipe, data, cache, **columns),
        )

    @override
    def load(self, path: str | Path, *, device: str | None = None) -> DetectorRun:
        folder, recipe, model, place = open_run(path, self.name, f"one of {self.name}", device)
        labels, known = load_labels(folder.path), model.config.n_labels
        if len(labels.names) != known:
            raise CheckpointError(
                f"{folder.path / LABELS} has {len(labels.names)} labels, but the model knows "
                f"{known}: they belong to different runs"
            )
        return DetectorRun(folder, recipe, model, place, labels)

    @override
    def subject(self, run: DetectorRun, split: str, n: int) -> Subject:
        check_data(run.folder, run.recipe.data, TEXTS_INSTEAD)
        examples = self.load_data(run.recipe).split(split)[:n]

        def judge() -> dict[str, float]:
            found = run.scored(examples, split).scores
            return {name: found[name] for name in ("loss", *METRICS)}

        return Subject(
            run.model, run.device, lambda: run.readings(examples), judge, split, len(examples)
        )

    @override
    def form(self, run: DetectorRun) -> Form:
        return Form(
            label="A picture",
            go="Detect",
            answer="Objects",
            about=f"{len(run.labels.names)} labels",
            stands="The boxes stand.",
            view="boxes",
            views=PICTURE_VIEWS,
            edits=PICTURE_EDITS,
        )


def _labels(examples: Iterable[BoxedPicture]) -> Labels:
    """Those that training shows, in sorted order."""
    names = tuple(sorted({label for one in examples for label in one.labels}))
    if not names:
        raise DataError("no training picture has a box: there is nothing to find")
    return Labels(names, pairs=False)


def _check_queries(config: DetectionConfig, examples: Iterable[BoxedPicture]) -> None:
    most = max(examples, key=lambda one: len(one.labels))
    if len(most.labels) > config.n_queries:
        raise ConfigError(
            f"{most.where}: {len(most.labels)} boxes, but model.n_queries={config.n_queries} can "
            f"find no more than that; set it to {len(most.labels)} at least"
        )


def _check_augmentation(recipe: Recipe) -> None:
    """Refuse what boxes cannot follow."""
    settings = recipe.data.augment
    for name in ("randaugment", "mixup", "cutmix"):
        if getattr(settings, name):
            raise ConfigError(
                f"data.augment.{name} turns or mixes pictures, and boxes cannot follow: leave it "
                "out with detection"
            )


TASKS.add("detection")(DetectionTask())
