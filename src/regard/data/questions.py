"""Questions about texts: the answer to each stands in its text, word by word."""

from __future__ import annotations

import re
from dataclasses import dataclass

from regard.core.errors import DataError
from regard.data.labelled import Labelled, LabelledCorpus, split_files
from regard.data.lines import excerpt
from regard.data.question_rows import QuestionRow, question_rows
from regard.data.settings import DataSettings, Files


@dataclass(frozen=True, slots=True)
class Question(Labelled):
    """A question (``text``) about a text (``other``); ``label`` is the answer that is learned."""

    answers: tuple[str, ...] = ()
    """Every answer that is right; the first is learned."""
    start: int = 0
    """Where that one begins in the context, in characters."""

    @classmethod
    def of(
        cls, question: str, context: str, answers: tuple[str, ...], start: int, where: str = ""
    ) -> Question:
        """By the names that its parts have here."""
        return cls(question, context, answers[0], None, where, answers, start)

    @property
    def context(self) -> str:
        """The text that the answer stands in."""
        return self.other or ""

    @property
    def end(self) -> int:
        """Where the answer ends in the context, in characters."""
        return self.start + len(self.answers[0])

    @property
    def source(self) -> str:
        """A context is either learned from or scored: all its questions stay together."""
        return self.context

    @property
    def target(self) -> str:
        """The same."""
        return self.context


@dataclass(frozen=True, slots=True)
class QuestionCorpus(LabelledCorpus):
    """Questions that were read, and those that were passed over."""

    examples: tuple[Question, ...]
    n_unanswered: int = 0

    def notes(self, name: str) -> list[str]:
        """What a user should know about a split."""
        told = f"{name}: {self.n_unanswered} questions passed over, having no answer"
        return [*LabelledCorpus.notes(self, name), *([told] if self.n_unanswered else [])]


def read_question_splits(settings: DataSettings) -> dict[str, QuestionCorpus]:
    """The files of ``train``, ``valid`` and, if there is one, ``test``.

    What has no file is held out of ``train``, whole contexts at a time.
    """
    return split_files(settings, lambda files: read_questions(files, settings))


def read_questions(files: Files, settings: DataSettings | None = None) -> QuestionCorpus:
    """All questions of a file. Questions and answers lose white space at their ends."""
    columns, pattern = (None, None) if settings is None else (settings.columns, settings.pattern)
    found: list[Question] = []
    n_empty = n_unanswered = n_headers = 0
    for row in question_rows(files, columns, pattern):
        if row.is_header:
            n_headers += 1
        elif not row.answers:
            n_unanswered += 1
        elif not row.question.strip() or not row.context.strip() or not row.answers[0].strip():
            n_empty += 1
        else:
            found.append(_question(row))
    if not found:
        skipped = f"{n_empty} empty, {n_unanswered} without an answer"
        raise DataError(f"{files}: no question with an answer in it ({skipped})")
    return QuestionCorpus(tuple(found), n_empty, n_headers, n_unanswered)


def _question(row: QuestionRow) -> Question:
    """A row whose answer is in its text; any other is refused."""
    first = row.answers[0]
    answers = tuple(dict.fromkeys(one.strip() for one in row.answers if one.strip()))
    if row.start is None:
        start = _found(answers[0], row.context)
    else:
        start = row.start + len(first) - len(first.lstrip())
    if start is None:
        raise DataError(
            f"{row.where}: the answer {excerpt(answers[0])} is not in its text "
            f"{excerpt(row.context)}; copy it from there letter by letter"
        )
    there = row.context[max(start, 0) : max(start, 0) + len(answers[0])]
    if start < 0 or there != answers[0]:
        raise DataError(
            f"{row.where}: the answer is {excerpt(answers[0])}, but answer_start={row.start} says "
            f"{excerpt(there)} in the text {excerpt(row.context)}; correct one of them"
        )
    return Question.of(row.question.strip(), row.context, answers, start, row.where)


def _found(answer: str, context: str) -> int | None:
    """Where an answer stands first: as whole words or, where it never does, inside of one."""
    whole = re.search(rf"(?<!\w){re.escape(answer)}(?!\w)", context)
    if whole is not None:
        return whole.start()
    inside = context.find(answer)
    return None if inside < 0 else inside
