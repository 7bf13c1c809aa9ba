"""A run that answers questions before its first step: from a recipe to all that training needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from regard.core.counting import counted
from regard.data.batch import Batch
from regard.data.examples import Ints
from regard.data.question_windows import gold_spans
from regard.data.questions import Question
from regard.data.row_batches import NOT_HERE, Layout, row_stream, span_batch
from regard.data.stream import Stream
from regard.evaluation.metrics import exact_match, f1
from regard.models.encoder import Encoder
from regard.recipes.recipe import Recipe
from regard.runs.finding import Asked
from regard.runs.kinds.answerer import load_answerer
from regard.runs.prepared import Scoring
from regard.runs.questions import QuestionData, load_questions
from regard.runs.tasks.beginning import Wish, begin
from regard.runs.tasks.encoding import PreparedEncoding, all_texts
from regard.text.tokenizer import Tokenizer
from regard.training.distributed import unwrapped
from regard.training.flops import encoder_flops
from regard.training.losses import Losses, StatelessObjective, choice_cross_entropy


def span_loss(logits: Tensor, batch: Batch, smoothing: float = 0.0) -> Tensor:
    """Mean of the cross-entropies of start and end, summed over rows (B, S, 2) -> ()."""
    start, end = (
        choice_cross_entropy(one, at, batch.allowed, label_smoothing=smoothing)
        for one, at in zip(logits.unbind(-1), batch.spans.unbind(-1), strict=True)
    )
    return (start + end) / 2


class SpanLoss(StatelessObjective):
    """What start and end cost, summed over the rows of a batch."""

    def __init__(self, smoothing: float) -> None:
        self.smoothing = smoothing

    def __call__(self, model: Encoder, batch: Batch) -> Losses:
        """Of a batch."""
        logits = model(*unwrapped(model).inputs(batch.ids, batch.segments))
        loss = span_loss(logits, batch, self.smoothing)
        return Losses.of("cross_entropy", loss, batch.n_target_tokens)


@dataclass(frozen=True, slots=True)
class Learned:
    """Questions as they are learned from, or validated on."""

    questions: Sequence[Question]
    asked: Asked
    spans: Ints
    """(rows, 2): where the answer stands in each row."""

    @classmethod
    def of(cls, questions: Sequence[Question], tokenizer: Tokenizer, layout: Layout) -> Learned:
        """Encode them and find their answers."""
        pairs = [(one.text, one.context) for one in questions]
        asked = Asked.of(pairs, tokenizer, layout)
        return cls(questions, asked, gold_spans(asked.windows, layout, questions, asked.offsets))

    def notes(self, name: str) -> list[str]:
        """What a user should know about a split."""
        windows = self.asked.windows
        here = {*windows.questions[self.spans[:, 1] != NOT_HERE].tolist()}
        n_rows, n_lost = len(windows.questions), len(self.questions) - len(here)
        told = []
        if n_rows > len(self.questions):
            told.append(f"{name}: {counted(len(self.questions), 'text')} read in {n_rows} windows")
        if windows.n_cut:
            told.append(f"{name}: {counted(windows.n_cut, 'question')} cut to half of max_len")
        if n_lost:
            told.append(
                f"{name}: {counted(n_lost, 'answer')} longer than half a window, not learned"
            )
        return told


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedAnswers(PreparedEncoding):
    """Questions about texts, and an encoder that finds the answers."""

    data: QuestionData
    learned: Learned
    validated: Learned

    @property
    def size(self) -> dict[str, int]:
        """As ``Prepared.size``."""
        n = len(self.learned.questions)
        return {"training questions": n, "vocabulary": self.tokenizer.n_vocab}

    def stream(self) -> Stream:
        """As ``Prepared.stream``."""
        settings = self.recipe.train
        return row_stream(
            span_batch,
            self.train,
            self.layout,
            batch_tokens=settings.batch_tokens,
            seed=settings.seed,
            spans=self.learned.spans,
        )

    def objective(self) -> SpanLoss:
        """As ``Prepared.objective``."""
        return SpanLoss(self.recipe.train.label_smoothing)

    def flops(self, batch: Batch) -> float:
        """As ``Prepared.flops``: the head answers at every position."""
        n_rows, n_tokens = batch.ids.shape
        return self.formula.training(n_rows, n_tokens, n_rows * n_tokens)

    def example(self, number: int) -> str:
        """As ``Prepared.example``; numbers are those of windows."""
        return self.learned.questions[self.learned.asked.windows.questions[number]].text

    def validation(self) -> Scoring:
        """As ``Prepared.validation``; the loss is the plain one, without smoothing."""
        valid = self.validated
        right = [one.answers for one in valid.questions]

        def scores(model: Encoder) -> Mapping[str, float]:
            read = [*valid.asked.read(model, self.device, self.recipe.train.batch_tokens)]
            batch = partial(span_batch, self.valid, layout=self.layout, spans=valid.spans)
            loss = sum(span_loss(logits, batch(rows)).item() for rows, logits in read)
            given = [best.text for (best,) in valid.asked.answers(read)]
            found = {"exact_match": exact_match(given, right), "f1": f1(given, right)}
            return {"loss": loss / len(valid.spans), **found}

        return Scoring(scores)


def prepare_answers(
    recipe: Recipe, device: torch.device, *, begun: Path | None = None, cache: Path | None = None
) -> PreparedAnswers:
    """Load or make the questions, train a tokenizer unless there is one, build the encoder.

    Draws from torch's default generator, which is left where the first training step begins.
    """
    del cache  # questions that people have asked are few
    data = load_questions(recipe.data)
    examples = data.splits["train"]
    start = begin(Wish(recipe, "spans"), lambda: all_texts(examples), device, begun)
    layout = Layout(start.tokenizer.marks, start.config.max_len)
    train, valid = (
        Learned.of(data.splits[name], start.tokenizer, layout) for name in ("train", "valid")
    )
    return PreparedAnswers(
        recipe=recipe,
        config=start.config,
        model=start.model,
        notes=(*data.notes, *start.notes, *train.notes("train"), *valid.notes("valid")),
        device=device,
        data=data,
        tokenizer=start.tokenizer,
        layout=layout,
        train=train.asked.windows.table,
        valid=valid.asked.windows.table,
        formula=encoder_flops(start.model),
        load=load_answerer,
        learned=train,
        validated=valid,
    )
