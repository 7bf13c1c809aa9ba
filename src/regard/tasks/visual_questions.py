"""Visual questions: an answer to a question about a picture, chosen among those of training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from typing_extensions import override

from regard.core.errors import ConfigError, DataError
from regard.core.numbers import counted
from regard.data.batch import Batch
from regard.evaluation.metrics import values
from regard.models.presets import build, resolve_for
from regard.models.visual_questions import VisualQuestionsConfig, triplet
from regard.tasks.base import TASKS, Scoring
from regard.tasks.classification import LABELS, Labels, fitting_labels, load_labels
from regard.tasks.examples import EXAMPLES, PageExample
from regard.tasks.opening import (
    SHARED,
    TOKENIZER_FILES,
    check_memory,
    check_vocabulary,
    load_tokenizer,
    open_run,
)
from regard.tasks.picture_answerer import (
    OWN_METRICS,
    READ_AT_ONCE,
    PictureAnswerer,
    question_ids,
    said,
    unseen_note,
)
from regard.tasks.picture_verbs import ASK
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
from regard.tasks.verb import Form, Unit
from regard.text.settings import TEXT_SETTINGS
from regard.text.tokenizer import Tokenizer
from regard.training.distributed import divided
from regard.training.flops import CallFlops
from regard.training.losses import Losses, cross_entropy

UNSEEN = -1
"""The number of an answer that training did not show."""


class QuestionLoss(Augmenting):
    """Cross-entropy, summed over the questions of a batch; with examples, where they look too.

    The triplet term compares what was found, brought to length 1, with what examples found.
    """

    def __init__(self, recipe: Recipe) -> None:
        super().__init__(recipe)
        self.smoothing = recipe.train.label_smoothing

    def __call__(self, model: Any, batch: Batch) -> Losses:
        """Of a batch."""
        batch = self.augmented(batch)
        if getattr(model, "examples", None) is None:
            logits = model(batch.pixels, batch.ids, batch.pictures)
            return self._answers(logits, batch)
        numbers = torch.tensor(batch.numbers, device=batch.ids.device)
        found = model.answered(batch.pixels, batch.ids, batch.pictures, numbers)
        losses, config = self._answers(found.logits, batch), model.config
        if config.differential == "loss":
            sides = (found.looked.found, *found.exemplars)
            own, near, far = (F.normalize(x.float(), dim=-1) for x in sides)
            apart = triplet(own, near, far, config.margin)
            losses += Losses.of("triplet", config.triplet_weight * apart, batch.count)
        if model.training:
            model.examples.add(found.looked, numbers)
        return losses

    def _answers(self, logits: Tensor, batch: Batch) -> Losses:
        loss = cross_entropy(logits, batch.labels, label_smoothing=self.smoothing)
        return Losses.of("cross_entropy", loss, batch.count)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedQuestions(PreparedPictures):
    """Pictures with questions, and a model that answers them."""

    takes, criteria = "labels", ("loss", *OWN_METRICS)
    tokenizer: Tokenizer
    labels: Labels
    picture_formula: CallFlops
    """Of reading a picture, which questions share."""

    @property
    @override
    def vocabularies(self) -> tuple[Tokenizer, ...]:
        return (self.tokenizer,)

    @property
    @override
    def size(self) -> Mapping[str, int]:
        return {
            "training pictures": len(self.train.pixels),
            "questions": len(self.train),
            "vocabulary": self.tokenizer.n_vocab,
            "answers": len(self.labels.names),
        }

    @override
    def objective(self) -> QuestionLoss:
        return QuestionLoss(self.recipe)

    @override
    def flops(self, batch: Batch) -> float:
        """A picture is read once, whatever is asked about it."""
        pixels, ids = batch.pixels, batch.ids
        each = pixels[:1].expand(len(ids), *pixels.shape[1:])
        spared = self.picture_formula.training(each) - self.picture_formula.training(pixels)
        return self.formula.training(each, ids) - spared

    @override
    def validation(self) -> Scoring:
        """The loss is the plain one, without smoothing; it leaves unseen answers out."""
        batches = [batch.to(self.device) for batch in self.valid.ordered(READ_AT_ONCE)]
        names = (*OWN_METRICS, *self.recipe.train.metrics)

        def scores(model: Any) -> Mapping[str, float]:
            def judged(batch: Batch) -> tuple[float, list[int]]:
                logits = model(batch.pixels, batch.ids, batch.pictures).float()
                loss = F.cross_entropy(
                    logits, batch.labels, ignore_index=UNSEEN, reduction="sum"
                ).item()
                return loss, logits.argmax(dim=-1).tolist()

            losses, given = zip(*divided(batches, judged), strict=True)
            right = [label for batch in batches for label in batch.labels.tolist()]
            known = sum(number != UNSEEN for number in right)
            return {"loss": sum(losses) / max(1, known), **values(names, [*chain(*given)], right)}

        return Scoring(scores)

    @override
    def save(self, folder: Path) -> None:
        self.tokenizer.save(folder / SHARED)
        self.labels.save(folder)


class VisualQuestionsTask(PictureTask):
    """Pictures with questions, and a model that answers them."""

    name, records = "visual_questions", "image_question"
    hub_task = "visual-question-answering"
    verbs, config, attends = (ASK,), VisualQuestionsConfig, "san2016 or joint-vqa"
    unit = Unit("question", "questions")
    files = (*TOKENIZER_FILES, LABELS, EXAMPLES)
    heeds = PICTURE_SETTINGS | {
        *("data.columns", "data.question_kind", "train.label_smoothing", "train.metrics"),
        *TEXT_SETTINGS,
    }
    smallest: ClassVar[Mapping[str, Any]] = {"n_labels": 2, "n_vocab": 9}
    looks = frozenset({"other", "question"})
    head_scores = ("loss", "accuracy")

    @override
    def prepare(
        self,
        recipe: Recipe,
        device: torch.device,
        *,
        begun: Path | None = None,
        cache: Path | None = None,
    ) -> PreparedQuestions:
        data = self.load_data(recipe)
        train = data.splits["train"]
        if begun is None:
            tokenizer = Tokenizer.train([one.question for one in train], recipe.text)
            labels = Labels(tuple(sorted({said(one.answer, recipe.text) for one in train})), False)
        else:
            tokenizer, labels = load_tokenizer(begun), load_labels(begun)
        if len(labels.names) < 2:
            raise DataError(
                f"all training questions have the answer {labels.names[0]!r}; two at least are "
                "needed"
            )
        torch.manual_seed(recipe.train.seed)
        sizes = {"n_labels": len(labels.names), "image_size": image_size(recipe, data)}
        sizes |= {"n_vocab": tokenizer.n_vocab, "pad_id": tokenizer.specials.pad}
        config = resolve_for(self.name, VisualQuestionsConfig, recipe.model, **sizes)
        check_memory(config, device)
        model = build(config)
        numbers = labels.numbers
        tables = self.tables(
            recipe,
            data,
            cache,
            shared=True,
            ids=lambda some: [
                question_ids(one.question, tokenizer, config.max_len) for one in some
            ],
            labels=lambda some: np.array(
                [numbers.get(said(one.answer, recipe.text), UNSEEN) for one in some], np.int64
            ),
        )
        right = [said(one.answer, recipe.text) for one in data.splits["valid"]]
        n = config.max_len - 1
        cut = sum(len(tokenizer.encode(one.question)) > n for one in train)
        told = [f"train: {counted(cut, 'question')} cut to {config.max_len} tokens"] if cut else []
        return PreparedQuestions(
            recipe=recipe,
            config=config,
            formula=CallFlops(model),
            picture_formula=CallFlops(model.encoder),  # type: ignore[arg-type]
            model=model.to(device),
            notes=(*data.notes, *told, *unseen_note(right, labels, "valid")),
            device=device,
            tokenizer=tokenizer,
            labels=labels,
            **tables,
        )

    @override
    def load(self, path: str | Path, *, device: str | None = None) -> PictureAnswerer:
        folder, recipe, model, place = open_run(path, self.name, f"one of {self.name}", device)
        tokenizer = load_tokenizer(folder.path)
        check_vocabulary(folder, tokenizer, model.config.n_vocab)
        labels = fitting_labels(folder.path, model.config.n_labels)
        return PictureAnswerer(folder, recipe, model, place, tokenizer, labels)

    @override
    def explain(self, run: PictureAnswerer, source: Any, *, edit: Any = (), **more: Any) -> Any:
        """A question is the second text, or has its own name."""
        if (question := more.pop("question", None)) is not None:
            if more.get("other") is not None:
                raise ConfigError(
                    "the question is given twice, beside the picture and by --question: give one"
                )
            more["other"] = question
        return super().explain(run, source, edit=edit, **more)

    @override
    def head_judge(self, run: PictureAnswerer, examples: Sequence[Any]) -> Mapping[str, Any]:
        """Without where it looks, which takes as long again."""
        return run.answered(examples)[1]

    @override
    def form(self, run: PictureAnswerer) -> Form:
        return Form(
            label="A picture",
            other="A question",
            go="Ask",
            answer="Answer",
            about=f"answers questions about pictures; {len(run.labels.names)} answers",
            stands="The answer stands.",
            view="labels",
            views=PICTURE_VIEWS,
            edits=PICTURE_EDITS,
        )

    @override
    def examples_of(self, run: Any, records: Sequence[Any]) -> list[PageExample]:
        """Pictures as the model sees them, as data URLs, with their questions."""
        shown = zip(PictureTask.examples_of(self, run, records), records, strict=False)
        return [{**one, "other": record.question} for one, record in shown]

    @override
    def tokenizers(self, run: Any) -> tuple[Tokenizer | None, Tokenizer | None]:
        return run.tokenizer, None


TASKS.add("visual_questions")(VisualQuestionsTask())
