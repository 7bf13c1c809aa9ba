"""What the tasks of pictures share: how pictures are prepared, learned from and scored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from torch import Tensor
from typing_extensions import override

from regard.core.errors import ConfigError
from regard.data.augmentation import Augmentation
from regard.data.batch import Batch
from regard.data.corpora import read_corpus
from regard.data.picture_batches import PictureTable, drawn_in, picture_table
from regard.data.splits import Data, load_records
from regard.data.stream import Stream
from regard.tasks.base import Evaluation, JudgedRun, Prepared, Task
from regard.tasks.examples import PageExample, saved_examples
from regard.tasks.recipe import Recipe
from regard.tasks.texts import ELSEWHERE, NO_TEST, TEXTS_INSTEAD, Subject, check_data
from regard.tasks.verb import Unit
from regard.training.flops import CallFlops
from regard.training.losses import Objective
from regard.visual.heat_maps import data_uri

PICTURE = Unit("picture", "pictures")
SIDE = 64
"""Pixels of a side, while it is not known yet."""
LARGEST = 224
"""Pixels of a side, where nothing is said and pictures are larger."""
N_EXAMPLES = 6
N_FIGURES = 32
"""Pictures over which a report tells how far heads look."""
PICTURE_VIEWS = ("picture", "grid", "rollout", "matrix", "heads")
"""Of the page; the first is what it begins with."""
PICTURE_EDITS = ("ablate", "force", "temperature", "occlude")
PICTURE_SETTINGS = frozenset(
    {"data.images", "data.image_size", "data.fit", "data.resample", "data.augment"}
    | {"train.batch_size"}
)
"""What all tasks of pictures heed."""


def augmentation_of(recipe: Recipe) -> Augmentation | None:
    """How the pictures of a recipe are changed; None where they are not."""
    settings = recipe.data.augment
    changes = settings != type(settings)()
    return Augmentation(settings, recipe.train.seed) if changes else None


class Augmenting(Objective):
    """An objective whose pictures are changed before they are read, as was drawn for the batch."""

    mixes: ClassVar[bool] = False
    """Whether a picture may have a part of another, with a share of what is learned of that."""

    def __init__(self, recipe: Recipe) -> None:
        if recipe.data.augment.mixes and not self.mixes:
            raise ConfigError(
                "data.augment: mixup and cutmix mix pictures and their labels, and the task "
                f"{recipe.task} has no labels of whole pictures; leave them out"
            )
        self.augmentation = augmentation_of(recipe)

    def augmented(self, batch: Batch) -> Batch:
        """Pixels from 0 to 1; where pictures are mixed, ``partners`` and ``shares`` (B,).

        A batch for which nothing was drawn, such as one of a validation, is as it is.
        """
        drawn = drawn_in(batch)
        if self.augmentation is None or not drawn:
            return batch
        made = self.augmentation.apply(batch.pixels, drawn)
        mixed = {"partners": made.partners, "shares": made.shares}
        more = mixed if self.augmentation.settings.mixes else {}
        more["placements"] = made.placements
        return replace(batch, tensors={**batch.tensors, "pixels": made.pixels, **more})


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedPictures(Prepared):
    """Pictures with what is learned of them, and a model."""

    data: Data[Any]
    train: PictureTable
    valid: PictureTable
    formula: CallFlops

    @property
    @override
    def size(self) -> Mapping[str, int]:
        return {"training pictures": len(self.train.pixels)}

    @override
    def stream(self) -> Stream:
        settings = self.recipe.train
        draw = augmentation_of(self.recipe)
        return self.train.stream(
            batch_size=settings.batch_size, seed=settings.seed, augmentation=draw
        )

    @override
    def held_out(self) -> Sequence[Any]:
        return self.data.splits["valid"]

    def valid_batches(self) -> list[Batch]:
        """The validation set, on the device."""
        size = self.recipe.train.batch_size
        return [batch.to(self.device) for batch in self.valid.ordered(size)]

    @override
    def flops(self, batch: Any) -> float:
        return self.formula.training(*self.inputs(batch))

    def inputs(self, batch: Batch) -> tuple[Tensor, ...]:
        """What the model's forward is given of a batch."""
        return (batch.pixels,)

    @override
    def example(self, number: int) -> str:
        return str(self.data.splits["train"][number].where)

    @property
    @override
    def test_sets(self) -> Sequence[str]:
        return self.data.test_sets

    @override
    def scored(self, run: Any, split: str) -> Evaluation:
        found: Evaluation = run.scored(self.data.split(split), split)
        return found

    @override
    def judged(self, out: Path, test_sets: Sequence[str] | None) -> JudgedRun:
        found = super(PreparedPictures, self).judged(out, test_sets)
        return replace(found, figures=found.run.figures(self.data.split("valid")[:N_FIGURES]))


class PictureTask(Task):
    """A task of runs that read pictures."""

    records: ClassVar[str]
    """What a line of its data is: an entry of ``data.corpora.SCHEMAS``."""
    unit, heeds = PICTURE, PICTURE_SETTINGS
    head_scores: ClassVar[tuple[str, ...]] = ("loss",)
    """What is told of a run without one of its heads."""
    evaluation_options: ClassVar[frozenset[str]] = frozenset()
    """What an evaluation may be told."""

    def tables(
        self, recipe: Recipe, data: Data[Any], cache: Path | None, **columns: Any
    ) -> dict[str, Any]:
        """``data``, ``train`` and ``valid`` of ``PreparedPictures``, and the side of pictures.

        ``columns`` give, for the records of a split, what is learned of them; ``counts`` names the
        sequence whose positions are; with ``shared`` a batch has each of its pictures once.
        """
        counts, shared = columns.pop("counts", ""), columns.pop("shared", False)
        size = image_size(recipe, data)
        if recipe.data.fit == "keep":
            raise ConfigError(
                "data.fit=keep leaves pictures of many sizes, and training reads them in batches "
                "of one: set data.fit to pad, crop or squash, and data.longest_edge to null"
            )
        if (crop := recipe.data.augment.crop) >= size:
            raise ConfigError(
                f"data.augment.crop={crop} shifts pictures of {size} pixels out of sight; choose "
                f"at most {size - 1}"
            )
        made = {
            name: picture_table(
                data.splits[name],
                size,
                recipe.data.fit,
                None if cache is None else cache / name,
                {key: column(data.splits[name]) for key, column in columns.items()},
                resample=recipe.data.resample,
                counts=counts,
                shared=shared,
            )
            for name in ("train", "valid")
        }
        return {"data": data, **made}

    @override
    def stand_ins(self, raw: Mapping[str, Any]) -> Mapping[str, Any]:
        """Pictures are as large as it is said, or of whole patches."""
        model, data = (raw.get(name) or {} for name in ("model", "data"))
        patch, said = model.get("patch_size"), data.get("image_size")
        side = said if type(said) is int else 8 * patch if type(patch) is int else SIDE
        return {**self.smallest, "image_size": side}

    def load_data(self, recipe: Recipe) -> Data[Any]:
        """The records of a recipe."""
        return load_records(recipe.data, self.records)

    @override
    def evaluate(self, run: Any, split: str | None = None, **options: Any) -> Evaluation:
        given = self.options_of(options)
        check_data(run.folder, run.recipe.data, ELSEWHERE)
        data = self.kept_data(run.recipe, split)
        name = split or data.test_sets[0]
        found = self.shown(run, data.split(name), run.scored(data.split(name), name, **given))
        notes = (NO_TEST,) if split is None and name == "valid" else ()
        return replace(found, notes=(*notes, *found.notes))

    @override
    def score_file(self, run: Any, path: Path, **options: Any) -> Evaluation:
        given = self.options_of(options)
        corpus = read_corpus(str(path), self.records, run.recipe.data)
        found = run.scored(corpus.examples, path.name, **given)
        found = self.shown(run, corpus.examples, found)
        return replace(found, notes=(*corpus.notes(path.name), *found.notes))

    def shown(self, run: Any, examples: Sequence[Any], found: Evaluation) -> Evaluation:
        """What was found, once a task has written a page about it beside the run; most do not."""
        return found

    def options_of(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """The options of an evaluation that are given; most are not for pictures, and refused."""
        given = {name: x for name, x in options.items() if x is not None and name != "own"}
        wrong = next((name for name in given if name not in self.evaluation_options), None)
        if wrong is not None:
            raise ConfigError(f"--{wrong} is for texts: leave it out with {self.name}")
        return given

    @override
    def subject(self, run: Any, split: str, n: int) -> Subject:
        """Held-out pictures; where heads point, of runs that know what is where."""
        check_data(run.folder, run.recipe.data, TEXTS_INSTEAD)
        examples = self.kept_data(run.recipe, split).split(split)[:n]

        def judge() -> dict[str, float]:
            found = self.head_judge(run, examples)
            return {name: found[name] for name in self.head_scores if name in found}

        def known() -> Mapping[str, Any]:
            return run.pointing(examples) if hasattr(run, "pointing") else {}

        readings = partial(run.readings, examples)
        return Subject(run.model, run.device, readings, judge, split, len(examples), known=known)

    def head_judge(self, run: Any, examples: Sequence[Any]) -> Mapping[str, Any]:
        """The scores of a run of which a head may be ablated."""
        found: Evaluation = run.scored(examples, "")
        return found.scores

    def kept_data(self, recipe: Recipe, split: str | None) -> Data[Any]:
        """The records to score on; a world makes no training set where another is asked for."""
        few = split != "train" and recipe.data.world is not None
        data = recipe.data.model_copy(update={"n_train": 1}) if few else recipe.data
        return self.load_data(recipe.model_copy(update={"data": data}))

    @override
    def examples_of(self, run: Any, records: Sequence[Any]) -> list[PageExample]:
        """Pictures as the model sees them, as data URLs."""
        return [{"text": data_uri(run.fitted(one.picture))} for one in records[:N_EXAMPLES]]

    @override
    def examples(self, run: Any) -> list[PageExample]:
        saved = saved_examples(run.folder.path)
        if saved is not None or run.recipe.data.world is None:
            return saved or []
        return self.examples_of(run, self.kept_data(run.recipe, "valid").split("valid"))


def image_size(recipe: Recipe, data: Data[Any]) -> int:
    """Pixels of a side: as it is said, or those of the first picture, if it is not too large."""
    if recipe.data.image_size is not None:
        return recipe.data.image_size
    return min(LARGEST, *data.splits["train"][0].picture.pixels().shape[:2])
