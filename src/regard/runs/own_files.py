"""Runs scored on a file of the user's, which is laid out as their training files were."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from regard.core.counting import counted
from regard.core.errors import DataError
from regard.core.registry import Registry
from regard.data.labelled import LabelledCorpus, Wanted, read_labelled
from regard.data.plain_texts import read_texts
from regard.data.questions import read_questions
from regard.runs.evaluation import Evaluation
from regard.runs.kinds.answerer import Answerer
from regard.runs.kinds.classifier import Classifier, texts_of
from regard.runs.kinds.embedder import Embedder
from regard.runs.kinds.encoder_run import EncoderRun
from regard.runs.kinds.filler import Filler
from regard.runs.kinds.writer import Writer

OF_FILE: Registry[Callable[[Any, Path], Evaluation]] = Registry("task")
"""Of runs that are scored on one file, by task."""


@OF_FILE.add("classification")
def score_labels(run: Classifier, path: Path) -> Evaluation:
    """Texts, or pairs of them, with labels that the run knows."""
    corpus = _read(run, path, "label")
    first = corpus.examples[0]
    if run.labels.pairs is not None and (first.other is not None) != run.labels.pairs:
        wanted, found = ("two texts", "one") if run.labels.pairs else ("one text", "two")
        raise DataError(
            f"{first.where}: expected {wanted} with a label, as in training, but found {found}"
        )
    texts = texts_of(corpus.examples)
    return replace(run.scored(corpus.examples, path.name), notes=_notes(run, path, corpus, texts))


@OF_FILE.add("similarity")
def score_pairs(run: Embedder, path: Path) -> Evaluation:
    """Pairs of texts, with scores or without."""
    corpus = _read(run, path, "score")
    sides = [text for one in corpus.examples for text in (one.text, one.other or "")]
    return replace(run.scored(corpus.examples, path.name), notes=_notes(run, path, corpus, sides))


@OF_FILE.add("masked")
def score_masked(run: Filler, path: Path) -> Evaluation:
    """Texts alone."""
    corpus = _read(run, path, "text")
    texts = [one.text for one in corpus.examples]
    return replace(run.scored(corpus.examples, path.name), notes=_notes(run, path, corpus, texts))


@OF_FILE.add("answers")
def score_answers(run: Answerer, path: Path) -> Evaluation:
    """Questions about texts, with their answers."""
    corpus = read_questions(str(path), run.recipe.data)
    evaluation = run.scored(corpus.examples, path.name)
    return replace(evaluation, notes=tuple(corpus.notes(path.name)))


def score_texts(run: Writer, path: Path, stride: int | None = None) -> Evaluation:
    """Plain texts, end to end; windows begin ``stride`` tokens apart.

    Rows with answers where the run was trained on such, written as texts by its ``data.prompt``.
    """
    if run.recipe.data.prompt is not None:
        return _score_rows(run, path, stride)
    return run.evaluate_texts(read_texts(str(path)), split=path.name, stride=stride)


def _score_rows(run: Writer, path: Path, stride: int | None) -> Evaluation:
    """As ``test`` of the run's data: the answers to choose from are those of its training."""
    corpus = read_labelled(str(path), "label", run.recipe.data)
    data = run.recipe.data.model_copy(update={"test": str(path.absolute())})
    asked = replace(run, recipe=run.recipe.model_copy(update={"data": data}))
    found = asked.evaluate("test", stride=stride)
    evaluation = replace(found, scores={**found.scores, "split": path.name})
    return replace(evaluation, notes=tuple(corpus.notes(path.name)))


def _read(run: EncoderRun, path: Path, wanted: Wanted) -> LabelledCorpus:
    return read_labelled(str(path), wanted, run.recipe.data)


def _notes(
    run: EncoderRun, path: Path, corpus: LabelledCorpus, texts: Sequence[Any]
) -> tuple[str, ...]:
    """Lines that were passed over, and texts that were cut."""
    n = run.n_cut(texts)
    cut = f"{path.name}: {counted(n, 'text')} cut to {run.model.config.max_len} tokens"
    return (*corpus.notes(path.name), *([cut] if n else []))
