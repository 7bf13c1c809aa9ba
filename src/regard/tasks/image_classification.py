"""Classification of pictures: a label for a picture, by a Vision Transformer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from typing_extensions import override

from regard.checkpoints.run_folder import RunFolder
from regard.core.errors import DataError
from regard.data.batch import Batch
from regard.data.picture_records import LabelledPicture
from regard.data.records import numbered
from regard.evaluation.metrics import computed, values
from regard.inspection.edits import edited
from regard.inspection.records import recorded_call
from regard.models.presets import build, resolve_for
from regard.models.vision import VisionConfig, VisionTransformer
from regard.tasks import edits
from regard.tasks.base import TASKS, Evaluation, Scoring
from regard.tasks.classification import (
    LABELS,
    OWN_METRICS,
    Classified,
    Labels,
    fitting_labels,
    load_labels,
)
from regard.tasks.examples import EXAMPLES
from regard.tasks.importance import ForcedAnswer, label_answer
from regard.tasks.look import Choice, Look, Prediction, TopChoices
from regard.tasks.opening import check_memory, open_run
from regard.tasks.picture_run import PictureRun, is_one
from regard.tasks.picture_verbs import CLASSIFY_PICTURE
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
from regard.tasks.texts import PatchGrid, Reading, Subject
from regard.tasks.verb import Form
from regard.text.specials import BEGIN_ID, UNKNOWN_ID
from regard.training.distributed import divided
from regard.training.flops import CallFlops
from regard.training.losses import Losses, cross_entropy

CLASS = "<cls>"
"""How a class token is called where positions have names."""
TOP = 5


@dataclass(frozen=True, slots=True, repr=False)
class ImageClassifier(PictureRun):
    """A trained classifier of pictures with all it needs to be used."""

    weighs = True
    folder: RunFolder
    recipe: Recipe
    model: VisionTransformer
    device: torch.device
    labels: Labels

    def classify(self, pictures: Any, *, with_scores: bool = False) -> Any:
        """The label of a picture, or of each of a list: a path, bytes, an image or an array.

        With ``with_scores`` each label is a ``Classified(label, probability)``.
        """
        many = [pictures] if is_one(pictures) else pictures
        found: list[Any] = []
        for row in self.probabilities(many):
            number = int(row.argmax())
            label = self.labels.names[number]
            found.append(Classified(label, float(row[number])) if with_scores else label)
        return found[0] if is_one(pictures) else found

    def probabilities(self, pictures: Sequence[Any]) -> Any:
        """(n, labels): how likely each label is, in the order of ``labels.names``."""
        return self.log_probs(pictures).exp().numpy()

    @torch.inference_mode()
    def log_probs(self, pictures: Sequence[Any]) -> Tensor:
        """In natural logarithms."""
        found = divided(self.batches(pictures), lambda pixels: self.model(pixels).float().cpu())
        return torch.cat(found).log_softmax(dim=-1) if found else torch.zeros(0, 0)

    @torch.inference_mode()
    def embed(self, pictures: Any) -> Any:
        """The vector from which a label is read, of length 1: picture -> (d,), list -> (n, d)."""
        many = [pictures] if is_one(pictures) else pictures
        found = torch.cat([self.model.pooled(pixels).float() for pixels in self.batches(many)])
        vectors = F.normalize(found, dim=-1).cpu().numpy()
        return vectors[0] if is_one(pictures) else vectors

    def explain(self, picture: Any, edit: Any = ()) -> Look:
        """Where every attention looks while a picture is read, and the label that comes out."""
        changes = edits.edits_from(edit)
        edits.refuse_words(changes)
        seen = self.seen(picture, changes)
        with edited(self.model, edits.of_model(changes)):
            output, found = recorded_call(self.model, self.pixels(seen[None]))
        edits.check_keys(changes, found)
        shares = output[0].float().softmax(dim=-1).tolist()
        choices = sorted(map(Choice, self.labels.names, shares), key=lambda one: -one.probability)
        axis = self.patches(*self._before)
        return Look.of(
            found,
            changes,
            source="",
            source_tokens=axis.labels,
            target_tokens=(),
            answer=choices[0].text,
            task=self.task,
            outcome=Prediction("label", choices[0].text, (TopChoices(None, tuple(choices)),)),
            axes={name: {"rows": "source", "columns": "source"} for name in found},
            sides={"source": axis},
            picture=seen,
        )

    @override
    def fixed_answer(self, source: Any, edit: Any = ()) -> ForcedAnswer:
        changes = edits.edits_from(edit)
        edits.refuse_words(changes)
        pixels = self.pixels(self.seen(source, changes)[None])
        return label_answer(self.model, (pixels,), self.labels.names, edits.of_model(changes))

    @property
    def _before(self) -> tuple[str, ...]:
        return (CLASS,) if self.model.config.pooling == "cls" else ()

    @override
    def scored(self, examples: Sequence[LabelledPicture], split: str) -> Evaluation:
        right = numbered(examples, self.labels.numbers)
        log_probs = self.log_probs(examples)
        given = log_probs.argmax(dim=-1).tolist()
        loss = -sum(log_probs[i, number].item() for i, number in enumerate(right)) / len(right)
        scores = computed((*OWN_METRICS, *self.recipe.train.metrics), given, right) | {"loss": loss}
        if len(self.labels.names) > TOP:
            scores |= computed(("top5",), log_probs.topk(TOP, dim=-1).indices.tolist(), right)
        names = [self.labels.names[number] for number in given]
        return self.evaluation(split, len(examples), scores, names)

    def readings(self, examples: Sequence[Any]) -> Iterator[Reading]:
        """Pictures in batches, as heads are measured on them."""
        n = len(self.patches(*self._before))
        for pixels in self.batches(examples):
            ids = np.full((len(pixels), n), UNKNOWN_ID)
            ids[:, : len(self._before)] = BEGIN_ID
            patches = {"encoder.self": PatchGrid(self.config.grid, self.cell, len(self._before))}
            yield Reading((pixels,), lambda _name, ids=ids: (ids, ids), patches)  # type: ignore[misc]

    @override
    def facts(self) -> dict[str, Any]:
        return {**PictureRun.facts(self), "labels": list(self.labels.names)}


class PictureLabelLoss(Augmenting):
    """Cross-entropy, summed over the pictures of a batch; of mixed ones, of both labels."""

    mixes = True

    def __init__(self, recipe: Recipe, *, compiled: bool = False) -> None:
        super().__init__(recipe)
        self.smoothing = recipe.train.label_smoothing
        self._logits = torch.compile(_logits) if compiled else _logits

    def __call__(self, model: VisionTransformer, batch: Batch) -> Losses:
        """Of a batch."""
        batch = self.augmented(batch)
        logits = self._logits(model, batch.pixels)
        if "shares" in batch.tensors:
            each = F.cross_entropy(
                logits.float(), batch.labels, label_smoothing=self.smoothing, reduction="none"
            )
            other = F.cross_entropy(
                logits.float(),
                batch.labels[batch.partners],
                label_smoothing=self.smoothing,
                reduction="none",
            )
            loss = (batch.shares * each + (1 - batch.shares) * other).sum()
        else:
            loss = cross_entropy(logits, batch.labels, label_smoothing=self.smoothing)
        return Losses.of("cross_entropy", loss, batch.count)


def _logits(model: VisionTransformer, pixels: Tensor) -> Tensor:
    return model(pixels)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedImageClassification(PreparedPictures):
    """Pictures with labels, and a model that tells them."""

    takes, criteria = "labels", ("loss", *OWN_METRICS)
    labels: Labels

    @property
    @override
    def same_shapes(self) -> bool:
        return self.device.type == "cuda"

    @property
    @override
    def size(self) -> Mapping[str, int]:
        return {**PreparedPictures.size.fget(self), "labels": len(self.labels.names)}  # type: ignore[attr-defined]

    @override
    def objective(self) -> PictureLabelLoss:
        return PictureLabelLoss(self.recipe, compiled=self.compiled)

    @override
    def validation(self) -> Scoring:
        """The loss is the plain one, without smoothing."""
        batches = self.valid_batches()
        names = (*OWN_METRICS, *self.recipe.train.metrics)

        def scores(model: VisionTransformer) -> Mapping[str, float]:
            def judged(batch: Batch) -> tuple[float, list[int]]:
                logits = model(batch.pixels).float()
                loss = F.cross_entropy(logits, batch.labels, reduction="sum").item()
                return loss, logits.argmax(dim=-1).tolist()

            losses, given = zip(*divided(batches, judged), strict=True)
            right = [label for batch in batches for label in batch.labels.tolist()]
            return {"loss": sum(losses) / len(right), **values(names, [*chain(*given)], right)}

        return Scoring(scores)

    @override
    def save(self, folder: Path) -> None:
        self.labels.save(folder)


class ImageClassificationTask(PictureTask):
    """Pictures with labels, and a model that tells them."""

    name, records, plain_name = "image_classification", "image_label", "classification"
    hub_task = "image-classification"
    verbs, config, attends = (CLASSIFY_PICTURE,), VisionConfig, "vit2021"
    files = (LABELS, EXAMPLES)
    heeds = PICTURE_SETTINGS | {"data.columns", "train.label_smoothing", "train.metrics"}
    smallest: ClassVar[Mapping[str, Any]] = {"n_labels": 2}
    head_scores = ("loss", "accuracy")

    @override
    def prepare(
        self,
        recipe: Recipe,
        device: torch.device,
        *,
        begun: Path | None = None,
        cache: Path | None = None,
    ) -> PreparedImageClassification:
        data = self.load_data(recipe)
        labels = Labels.of(data.splits["train"]) if begun is None else load_labels(begun)
        if len(labels.names) < 2:
            raise DataError(
                f"all training pictures have the label {labels.names[0]!r}; two at least are needed"
            )
        torch.manual_seed(recipe.train.seed)
        sizes = {"n_labels": len(labels.names), "image_size": image_size(recipe, data)}
        config = resolve_for(self.name, VisionConfig, recipe.model, **sizes)
        check_memory(config, device)
        model = build(config)
        assert isinstance(model, VisionTransformer)
        tables = self.tables(
            recipe,
            data,
            cache,
            labels=lambda some: np.array(numbered(some, labels.numbers), np.int64),
        )
        return PreparedImageClassification(
            recipe=recipe,
            config=config,
            formula=CallFlops(model),
            model=model.to(device),
            notes=data.notes,
            device=device,
            labels=labels,
            **tables,
        )

    @override
    def load(self, path: str | Path, *, device: str | None = None) -> ImageClassifier:
        folder, recipe, model, place = open_run(path, self.name, f"one of {self.name}", device)
        labels = fitting_labels(folder.path, model.config.n_labels)
        return ImageClassifier(folder, recipe, model, place, labels)

    @override
    def subject(self, run: ImageClassifier, split: str, n: int) -> Subject:
        found, alike = super().subject(run, split, n), run.position_similarities()
        if alike is None:
            return found
        return replace(found, facts={"position_similarities": alike.round(4).tolist()})

    @override
    def form(self, run: ImageClassifier) -> Form:
        return Form(
            label="A picture",
            go="Classify",
            answer="Label",
            about=f"{len(run.labels.names)} labels",
            stands="The label stands.",
            view="labels",
            views=PICTURE_VIEWS,
            edits=PICTURE_EDITS,
        )


TASKS.add("image_classification")(ImageClassificationTask())
