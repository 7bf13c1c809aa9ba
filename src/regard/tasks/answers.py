"""Answers: questions about texts, answered with words of the text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from typing_extensions import override

from regard.core.errors import ConfigError, DataError
from regard.core.numbers import counted
from regard.data.batch import Batch
from regard.data.examples import Ints
from regard.data.records import Corpus, Question
from regard.data.row_batches import (
    NOT_HERE,
    Layout,
    Offsets,
    Windows,
    first_of_text,
    gold_spans,
    ordered_rows,
    span_batch,
    windows_of,
)
from regard.data.splits import Data
from regard.evaluation.metrics import computed, values
from regard.models.encoder import Encoder
from regard.tasks.base import TASKS, Evaluation, Scoring
from regard.tasks.encoder_tasks import Begin, EncodingTask, PreparedEncoding
from regard.tasks.encoding import READ_TOKENS, EncoderInput, EncoderRun, Texts, encode_texts
from regard.tasks.look import MOST, Choice, Prediction, TopChoices
from regard.tasks.opening import one_or_many
from regard.tasks.reading_verbs import ANSWER, EMBED, NEAREST
from regard.tasks.verb import Form
from regard.text.settings import TEXT_SETTINGS
from regard.text.tokenizer import Tokenizer
from regard.training.distributed import divided
from regard.training.losses import Losses, Objective, choice_cross_entropy

OWN_METRICS = ("exact_match", "f1")
"""Of a validation, beside the loss and what the recipe names."""
LONGEST = 30
"""Tokens of an answer."""


class Answer(NamedTuple):
    """A part of a text: ``context[start:end]``, and how sure the model is of it."""

    text: str
    start: int
    end: int
    probability: float

    def as_json(self) -> dict[str, object]:
        """The words, where they stand in the text, and how sure the model is of them."""
        where = {"start": self.start, "end": self.end}
        return {"answer": self.text, **where, "probability": self.probability}


@dataclass(frozen=True, slots=True)
class Asked:
    """Questions about texts, as ids, and where each token of a text stands in it."""

    contexts: Sequence[str]
    offsets: Sequence[Offsets]
    edges: Sequence[Tensor]
    """(C, 2) bool a text: whether an answer may start, or end, with each token."""
    windows: Windows
    layout: Layout

    @classmethod
    def of(cls, pairs: Sequence[tuple[str, str]], tokenizer: Tokenizer, layout: Layout) -> Asked:
        """Pairs of a question and a text."""
        contexts = [context for _, context in pairs]
        places = {context: tokenizer.offsets(context) for context in {*contexts}}
        edges = {context: edges_of(context, found) for context, found in places.items()}
        offsets = [places[context] for context in contexts]
        allowed = [edges[context] for context in contexts]
        windows = windows_of(encode_texts(pairs, tokenizer), layout)
        return cls(contexts, offsets, allowed, windows, layout)

    def read(
        self, model: Encoder, device: torch.device, batch_tokens: int
    ) -> list[tuple[Ints, Tensor]]:
        """Some rows, and their scores (B, S, 2) in float32 on the CPU; all rows come once."""
        table = self.windows.table

        def read(rows: Ints) -> tuple[Ints, Tensor]:
            ids, segments = self.layout.texts(table, rows)
            given = model.inputs(ids.to(device), segments.to(device))
            return rows, model(*given).float().cpu()

        return divided(ordered_rows(table, self.layout, batch_tokens) if len(table) else [], read)

    def answers(self, scores: Iterable[tuple[Ints, Tensor]], n: int = 1) -> list[list[Answer]]:
        """The ``n`` best answers to each question, best first.

        The probability of an answer is that of its first token times that of its last, among the
        tokens of the window that shows it and *not here*. Of windows the surest speaks.
        """
        found: list[dict[tuple[int, int], float]] = [{} for _ in self.contexts]
        begins, windows = first_of_text(self.windows, self.layout), self.windows
        for rows, logits in scores:
            for row, scored in zip(rows.tolist(), logits, strict=True):
                which, first = int(windows.questions[row]), int(windows.firsts[row])
                edges = self.edges[which][first : first + int(windows.table.target.lengths[row])]
                for start, end, score in spans_of(scored, int(begins[row]), edges, n):
                    span = first + start, first + end
                    found[which][span] = max(score, found[which].get(span, score))
        return [self._best(i, spans, n) for i, spans in enumerate(found)]

    def _best(self, which: int, spans: dict[tuple[int, int], float], n: int) -> list[Answer]:
        context, offsets = self.contexts[which], self.offsets[which]
        if not spans:
            raise DataError(
                f"there is no word in the text {context[:40]!r} that the model can read; give "
                "another"
            )
        best = sorted(spans.items(), key=lambda item: -item[1])[:n]
        return [said(context, offsets, *span, score) for span, score in best]


def said(context: str, offsets: Offsets, first: int, last: int, score: float) -> Answer:
    """What stands between two tokens of a text, given its log-probability."""
    begin = offsets[first][0]
    text = context[begin : offsets[last][1]]
    begin += len(text) - len(text.lstrip())
    return Answer(text.strip(), begin, begin + len(text.strip()), math.exp(score))


def best_spans(
    starts: Tensor, ends: Tensor, *, longest: int = LONGEST, n: int = 1
) -> list[tuple[int, int, float]]:
    """(first token, last token, sum of their scores) of the ``n`` best spans, best first.

    starts (C,), ends (C,): scores, such as log-probabilities, -inf where a span may not start or
    end. A span is no longer than ``longest`` tokens; there may be fewer than ``n``.
    """
    behind = F.pad(ends, (0, longest - 1), value=-torch.inf).unfold(0, longest, 1)
    scores = (starts.unsqueeze(1) + behind).flatten()  # (C · longest), by first token and length
    best = scores.topk(min(n, len(scores)))
    return [
        (place // longest, place // longest + place % longest, score)
        for score, place in zip(best.values.tolist(), best.indices.tolist(), strict=True)
        if score > -torch.inf
    ]


def spans_of(logits: Tensor, begin: int, edges: Tensor, n: int) -> list[tuple[int, int, float]]:
    """Of a row's scores (S, 2): (first token of its text, last token, log-probability), n at most.

    The text begins at the position ``begin``; edges (C, 2) are as ``Asked`` has them.
    """
    if not edges.any():
        return []
    kept = torch.cat((logits[NOT_HERE : NOT_HERE + 1], logits[begin : begin + len(edges)]))
    log_probs = kept.log_softmax(dim=0)[1:].masked_fill(~edges, -torch.inf)
    return best_spans(log_probs[:, 0], log_probs[:, 1], n=n)


def edges_of(context: str, offsets: Offsets) -> Tensor:
    """Where an answer may start or end (C, 2).

    White space is no answer, and of a character in several pieces all belong to it.
    """
    spoken = [bool(context[begin:end].strip()) for begin, end in offsets]
    starts = [i == 0 or offsets[i][0] >= offsets[i - 1][1] for i in range(len(offsets))]
    ends = [*starts[1:], True][: len(starts)]  # a text may have no token
    rows = zip(spoken, starts, ends, strict=True)
    found = [(said and start, said and end) for said, start, end in rows]
    return torch.tensor(found, dtype=torch.bool).view(-1, 2)


@dataclass(frozen=True, slots=True, repr=False)
class Answerer(EncoderRun):
    """An encoder that finds where an answer starts and where it ends."""

    records = "question"

    def answer(
        self, questions: str | Sequence[str], contexts: str | Sequence[str], *, top: int = 1
    ) -> Any:
        """The answer to a question in a text: ``Answer(text, start, end, probability)``.

        Of several questions a list; they may all be about one text, or each about its own. With
        ``top`` more than 1, each answer is a list of so many, the best first. A text may be as
        long as you like.
        """
        asked = one_or_many(questions)
        texts = [contexts] * len(asked) if isinstance(contexts, str) else one_or_many(contexts)
        if len(texts) != len(asked):
            raise DataError(
                f"{len(asked)} questions about {len(texts)} texts; give one text for all, or one "
                "for each"
            )
        found: list[Any] = self.answers(list(zip(asked, texts, strict=True)), top)
        if top == 1:
            found = [best for (best,) in found]
        return found[0] if isinstance(questions, str) else found

    @torch.inference_mode()
    def answers(self, pairs: Sequence[tuple[str, str]], n: int = 1) -> list[list[Answer]]:
        """The ``n`` best answers to each question in its text; there may be fewer."""
        if n < 1:
            raise ConfigError(f"{n} answers were asked for; ask for at least 1")
        for question, context in pairs:
            if not question.strip():
                raise DataError("the question is empty; ask something")
            if not context.strip():
                raise DataError("the text is empty; give one that has the answer in it")
        asked = Asked.of(pairs, self.tokenizer, self.layout)
        return asked.answers(asked.read(self.model, self.device, READ_TOKENS), n)

    @property
    @override
    def takes_pairs(self) -> bool:
        return True

    @override
    def outcome(self, output: Tensor, laid: EncoderInput) -> Prediction:
        """The best spans of the second text, of logits (S, 2) of starts and ends.

        As many tokens of it were read as stand in the second segment before its end.
        """
        context, segments = laid.texts[-1], laid.segments
        first, n_read = len(segments) - sum(segments), max(0, sum(segments) - 1)
        offsets = self.tokenizer.offsets(context)
        spans = spans_of(output.float().cpu(), first, edges_of(context, offsets)[:n_read], MOST)
        if not spans:
            return Prediction("answer", "")
        found = [said(context, offsets, *span) for span in spans]
        choices = tuple(Choice(one.text, one.probability) for one in found)
        rows = first + spans[0][0], first + spans[0][1] + 1
        return Prediction("answer", choices[0].text, (TopChoices(rows, choices),))

    @override
    def n_cut(self, texts: Texts) -> int:
        """How many questions lose their end; texts are read in windows and lose nothing.

        Of texts without questions, as ``embed`` takes them: how many are cut.
        """
        pairs = [one for one in texts if not isinstance(one, str)]
        alone = [one for one in texts if isinstance(one, str)]
        asked = Asked.of(pairs, self.tokenizer, self.layout)
        return asked.windows.n_cut + EncoderRun.n_cut(self, alone)

    @override
    def scored(self, questions: Sequence[Question], split: str) -> Evaluation:
        """Scores on any questions; the texts of the evaluation are the answers."""
        found = self.answers([(one.text, one.context) for one in questions])
        given = [best.text for (best,) in found]
        right = [one.answers for one in questions]
        scores = computed((*OWN_METRICS, *self.recipe.train.metrics), given, right)
        return self.evaluation(split, len(questions), scores, given)


def span_loss(logits: Tensor, batch: Batch, smoothing: float = 0.0) -> Tensor:
    """Mean of the cross-entropies of start and end, summed over rows (B, S, 2) -> ()."""
    start, end = (
        choice_cross_entropy(one, at, batch.allowed, label_smoothing=smoothing)
        for one, at in zip(logits.unbind(-1), batch.spans.unbind(-1), strict=True)
    )
    return (start + end) / 2


class SpanLoss(Objective):
    """What start and end cost, summed over the rows of a batch."""

    def __init__(self, smoothing: float) -> None:
        self.smoothing = smoothing

    def __call__(self, model: Encoder, batch: Batch) -> Losses:
        """Of a batch."""
        logits = model(*model.inputs(batch.ids, batch.segments))
        loss = span_loss(logits, batch, self.smoothing)
        return Losses.of("cross_entropy", loss, batch.count)


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

    takes = "texts"
    collate = staticmethod(span_batch)
    data: Data[Question]
    learned: Learned
    validated: Learned

    @property
    @override
    def size(self) -> dict[str, int]:
        n = len(self.learned.questions)
        return {"training questions": n, "vocabulary": self.tokenizer.n_vocab}

    @override
    def objective(self) -> SpanLoss:
        return SpanLoss(self.recipe.train.label_smoothing)

    @override
    def flops(self, batch: Batch) -> float:
        """The head answers at every position."""
        n_rows, n_tokens = batch.ids.shape
        return self.formula.training(n_rows, n_tokens, n_rows * n_tokens)

    @override
    def example(self, number: int) -> str:
        """Numbers are those of windows."""
        return self.learned.questions[self.learned.asked.windows.questions[number]].text

    @override
    def validation(self) -> Scoring:
        """The loss is the plain one, without smoothing."""
        valid, names = self.validated, (*OWN_METRICS, *self.recipe.train.metrics)
        right = [one.answers for one in valid.questions]

        def scores(model: Encoder) -> Mapping[str, float]:
            read = valid.asked.read(model, self.device, self.recipe.train.batch_tokens)
            loss = sum(
                span_loss(logits.to(self.device), self.valid_batch(rows)).item()
                for rows, logits in read
            )
            given = [best.text for (best,) in valid.asked.answers(read)]
            return {"loss": loss / len(valid.spans), **values(names, given, right)}

        return Scoring(scores)


class AnswersTask(EncodingTask):
    """Questions about texts, and an encoder that finds the answers."""

    name, run = "answers", Answerer
    hub_task = "question-answering"
    verbs = (ANSWER, EMBED, NEAREST)
    heeds = TEXT_SETTINGS | {
        *("data.columns", "train.init", "train.label_smoothing", "train.metrics"),
    }
    smallest: ClassVar[Mapping[str, Any]] = {"n_vocab": 9, "head": "spans"}
    head_scores = ("exact_match", "f1")
    well_known = (
        {
            "text": "Who wrote the letter?",
            "other": "In the morning Mary wrote a letter to her brother in Paris.",
        },
    )

    @override
    def prepared(self, data: Data[Any], begun: Path | None, begin: Begin) -> PreparedAnswers:
        fields = begin(head="spans")
        tokenizer, layout = fields["tokenizer"], fields["layout"]
        train, valid = (
            Learned.of(data.splits[name], tokenizer, layout) for name in ("train", "valid")
        )
        fields["notes"] = (*fields["notes"], *train.notes("train"), *valid.notes("valid"))
        for name, part in (("train", train), ("valid", valid)):
            fields |= {name: part.asked.windows.table, f"{name}_targets": {"spans": part.spans}}
        return PreparedAnswers(**fields, learned=train, validated=valid)

    @override
    def file_notes(self, run: Answerer, corpus: Corpus[Question], name: str) -> list[str]:
        """Texts are read in windows, so nothing is cut."""
        return []

    @override
    def form(self, run: Answerer) -> Form:
        return Form(
            label="A question",
            other="The text that holds the answer",
            go="Answer",
            answer="Answer",
            about="answers questions",
            stands="The answer stands.",
            view="span",
        )


TASKS.add("answers")(AnswersTask())
