"""Detection: which objects are in a picture, and where, as boxes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor
from typing_extensions import override

from regard.core.errors import ConfigError, DataError
from regard.data.batch import Batch
from regard.data.picture_boxes import LEAST_SEEN
from regard.data.picture_records import BoxedPicture
from regard.evaluation.detection import Boxes
from regard.evaluation.metrics import values
from regard.functional.boxes import replaced, to_corners, to_middles
from regard.models.detection import DetectionConfig, Detections, Detector, chances
from regard.models.presets import build, resolve_for
from regard.tasks.base import TASKS, Scoring
from regard.tasks.classification import LABELS, Labels, fitting_labels, load_labels
from regard.tasks.detector import METRICS, DetectorRun, PictureBatch, column_of, judged
from regard.tasks.examples import EXAMPLES
from regard.tasks.look import Look
from regard.tasks.opening import check_memory, open_run
from regard.tasks.picture_verbs import DETECT
from regard.tasks.pictures import (
    PICTURE_EDITS,
    PICTURE_SETTINGS,
    PICTURE_VIEWS,
    Augmenting,
    PictureTask,
    PreparedPictures,
    image_size,
)
from regard.tasks.recipe import Recipe
from regard.tasks.verb import Form
from regard.training.flops import CallFlops
from regard.training.losses import Losses
from regard.training.set_prediction import NO_OBJECT, detection_losses


class SetLoss(Augmenting):
    """Matched with what is there, one to one: the losses of classes and boxes, by pictures."""

    def __init__(self, recipe: Recipe, *, compiled: bool = False) -> None:
        super().__init__(recipe)
        self._call = torch.compile(_call) if compiled else _call

    @override
    def augmented(self, batch: Batch) -> Batch:
        """Boxes go where their pixels go; those that are hardly seen any more are left out."""
        made = super().augmented(batch)
        if "placements" not in made.tensors:
            return made
        labels, boxes = moved_boxes(made.labels, made.boxes, made.placements)
        return replace(made, tensors={**made.tensors, "labels": labels, "boxes": boxes})

    def __call__(self, model: Detector, batch: Batch) -> Losses:
        """Of a batch."""
        config, batch = model.config, self.augmented(batch)
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
    hub_task = "object-detection"
    verbs, config, attends = (DETECT,), DetectionConfig, "detr2020"
    files, heeds = (LABELS, EXAMPLES), PICTURE_SETTINGS | {"data.longest_edge"}
    loss_unit = "a {}"
    smallest: ClassVar[Mapping[str, Any]] = {"n_labels": 1}
    head_scores = ("loss", *METRICS)

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
        labels = fitting_labels(folder.path, model.config.n_labels)
        return DetectorRun(folder, recipe, model, place, labels)

    @override
    def found_at(
        self, run: DetectorRun, look: Look, output: Detections, row: int
    ) -> Mapping[str, Any]:
        """The chance of each label, and the box of the query: at the start, and after each layer.

        A box is left, top, right, bottom, as shares of the picture's sides. Queries that are no
        anchors have none at the start.
        """
        config, anchors = run.model.config, run.model.decoder.anchors
        boxes = output.boxes[:, 0, row]
        if anchors is not None:
            boxes = torch.cat((anchors[row].sigmoid()[None], boxes))
        choices = run.choices(chances(output.logits[-1, 0, row], config.classes).tolist())
        is_object = any(one["row"] == row for one in look.boxes or ())
        return {
            "classes": config.classes,
            "choices": [one._asdict() for one in choices],
            "chosen": choices[0].text if is_object else None,
            "boxes": to_corners(boxes).clamp(0, 1).tolist(),
            "anchored": anchors is not None,
        }

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
