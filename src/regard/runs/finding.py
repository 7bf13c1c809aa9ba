"""Answers in texts: what a model's scores say, in the very letters of the text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from regard.core.errors import DataError
from regard.data.examples import Column, Ints, Table
from regard.data.question_windows import Offsets, Windows, first_of_text, windows_of
from regard.data.row_batches import NOT_HERE, Layout, ordered_rows
from regard.decoding.spans import best_spans
from regard.models.encoder import Encoder
from regard.text.tokenizer import Tokenizer


class Answer(NamedTuple):
    """A part of a text: ``context[start:end]``, and how sure the model is of it."""

    text: str
    start: int
    end: int
    probability: float

    def as_json(self) -> dict[str, object]:
        """The words, where they stand in the text, and how sure the model is of them."""
        return {
            "answer": self.text,
            "start": self.start,
            "end": self.end,
            "probability": self.probability,
        }


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
        sides = ([question for question, _ in pairs], contexts)
        table = Table(*(Column.joined(tokenizer.encode_batch(side)) for side in sides))
        places = {context: tokenizer.offsets(context) for context in {*contexts}}
        edges = {context: edges_of(context, found) for context, found in places.items()}
        offsets = [places[context] for context in contexts]
        allowed = [edges[context] for context in contexts]
        return cls(contexts, offsets, allowed, windows_of(table, layout), layout)

    def read(
        self, model: Encoder, device: torch.device, batch_tokens: int
    ) -> Iterator[tuple[Ints, Tensor]]:
        """Some rows, and their scores (B, S, 2) in float32 on the CPU; all rows come once."""
        table = self.windows.table
        for rows in ordered_rows(table, self.layout, batch_tokens) if len(table) else []:
            ids, segments = self.layout.texts(table, rows)
            given = model.inputs(ids.to(device), segments.to(device))
            yield rows, model(*given).float().cpu()

    def answers(self, scores: Iterable[tuple[Ints, Tensor]], n: int = 1) -> list[list[Answer]]:
        """The ``n`` best answers to each question, best first.

        The probability of an answer is that of its first token times that of its last, among the
        tokens of the window that shows it and *not here*. Of windows the surest speaks.
        """
        found: list[dict[tuple[int, int], float]] = [{} for _ in self.contexts]
        begins = first_of_text(self.windows, self.layout)
        for rows, logits in scores:
            for row, scored in zip(rows.tolist(), logits, strict=True):
                spans = found[self.windows.questions[row]]
                for start, end, score in self._spans(row, scored, int(begins[row]), n):
                    spans[start, end] = max(score, spans.get((start, end), score))
        return [self._best(i, spans, n) for i, spans in enumerate(found)]

    def _spans(
        self, row: int, logits: Tensor, begin: int, n: int
    ) -> Iterator[tuple[int, int, float]]:
        """Of a window (S, 2): (first token of the text, last token, log-probability)."""
        n_tokens = int(self.windows.table.target.lengths[row])
        first = int(self.windows.firsts[row])
        which = int(self.windows.questions[row])
        edges = self.edges[which][first : first + n_tokens]
        for start, end, score in spans_of(logits, begin, edges, n):
            yield first + start, first + end, score

    def _best(self, which: int, spans: dict[tuple[int, int], float], n: int) -> list[Answer]:
        if not spans:
            raise DataError(
                f"there is no word in the text {self.contexts[which][:40]!r} that the model can "
                "read; give another"
            )
        best = sorted(spans.items(), key=lambda item: -item[1])[:n]
        return [self._said(which, *span, score) for span, score in best]

    def _said(self, which: int, first: int, last: int, score: float) -> Answer:
        context, offsets = self.contexts[which], self.offsets[which]
        return said(context, (offsets[first][0], offsets[last][1]), score)


def said(context: str, place: tuple[int, int], score: float) -> Answer:
    """What stands at a place of a text, in characters, given its log-probability."""
    begin, end = place
    text = context[begin:end]
    begin += len(text) - len(text.lstrip())
    return Answer(text.strip(), begin, begin + len(text.strip()), math.exp(score))


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
