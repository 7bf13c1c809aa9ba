"""What the heads of encoders and language models are measured on: texts, and scores of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.core.errors import DataError
from regard.data.labelled import Labelled, Wanted
from regard.data.plain_texts import text_splits
from regard.runs.heads.readings import encoder_readings, writer_readings
from regard.runs.heads.watching import Reading
from regard.runs.heads.worth import Scoring
from regard.runs.kinds.classifier import texts_of
from regard.runs.kinds.encoder_run import EncoderRun, Texts
from regard.runs.kinds.writer import Writer
from regard.runs.labelled import load_labelled
from regard.runs.looking.reading import TAB
from regard.runs.own_data import check_data
from regard.runs.questions import load_questions
from regard.runs.splits import split_of

SCORES: Mapping[str, tuple[str, ...]] = {
    "classification": ("loss", "accuracy"),
    "masked": ("loss", "accuracy"),
    "similarity": ("spearman", "accuracy"),
    "answers": ("exact_match", "f1"),
    "language": ("loss", "perplexity"),
}
"""By what a run of each task is judged; what does not apply to its data is left out."""
_WANTED: Mapping[str, Wanted] = {"classification": "label", "masked": "text", "similarity": "score"}


@dataclass(frozen=True, slots=True)
class Subject:
    """Texts, how a model reads them, and how it is judged on them."""

    model: nn.Module
    device: torch.device
    readings: Callable[[], Iterator[Reading]]
    judge: Scoring
    split: str
    n: int
    """Texts."""
    notes: tuple[str, ...] = ()


class _Examples(NamedTuple):
    """Of a split, and what a user should know about how it came about."""

    all: Sequence[Any]
    notes: tuple[str, ...] = ()


def own_subject(run: EncoderRun | Writer, split: str, n: int) -> Subject:
    """The first ``n`` texts of a split of the run's data, and the run's own scores."""
    check_data(run.folder, run.recipe.data, "regard heads … --texts FILE measures on other texts")
    found = _examples(run, split)
    examples = found.all[:n]
    if isinstance(run, Writer):
        return _of_writer(run, examples, split, found.notes)
    return _of_encoder(run, _texts(examples), _judged(run, examples, split), split, found.notes)


def given_subject(run: EncoderRun | Writer, texts: Sequence[str], name: str, n: int) -> Subject:
    """Texts without labels.

    Where the run's own scores need labels, it is judged by how far the vectors of the texts turn:
    ``moved`` is the mean of 1 - cosine.
    """
    said = [text for text in texts if text.strip()][:n]
    if not said:
        raise DataError(f"{name} has no text to measure heads on")
    if isinstance(run, Writer):
        return _of_writer(run, said, name)
    if run.task == "masked":
        return _of_encoder(run, said, _judged(run, [Labelled(one) for one in said], name), name)
    pairs = TAB in said[0] if run.takes_pairs is None else run.takes_pairs
    given = [_pair(text, name) for text in said] if pairs else said
    return _of_encoder(run, given, _moved(run, given), name)


def _of_encoder(
    run: EncoderRun, texts: Texts, judge: Scoring, split: str, notes: tuple[str, ...] = ()
) -> Subject:
    readings = partial(encoder_readings, run, texts)
    return Subject(run.model, run.device, readings, judge, split, len(texts), notes)


def _of_writer(
    run: Writer, texts: Sequence[str], split: str, notes: tuple[str, ...] = ()
) -> Subject:
    def judge() -> dict[str, float]:
        return _chosen("language", run.evaluate_texts(texts, split=split).scores)

    readings = partial(writer_readings, run, texts)
    return Subject(run.model, run.device, readings, judge, split, len(texts), notes)


def _judged(run: Any, examples: Sequence[Any], split: str) -> Scoring:
    """By the scores that ``regard evaluate`` tells."""
    return lambda: _chosen(run.task, run.scored(examples, split).scores)


def _chosen(task: str, scores: Mapping[str, Any]) -> dict[str, float]:
    return {name: scores[name] for name in SCORES[task] if name in scores}


def _moved(run: EncoderRun, texts: Texts) -> Scoring:
    def vectors() -> Tensor:
        found = run.read(run.table(texts), run.model.pooled, run.model.config.d_model)
        return F.normalize(found.double(), dim=-1)

    before = vectors()
    return lambda: {"moved": 1 - float((vectors() * before).sum(dim=-1).mean())}


def _examples(run: EncoderRun | Writer, split: str) -> _Examples:
    if isinstance(run, Writer):
        return _Examples(split_of(text_splits(run.recipe.data), split))
    if run.task == "answers":
        questions = load_questions(run.recipe.data)
        return _Examples(questions.split(split), questions.notes)
    labelled = load_labelled(run.recipe.data, _WANTED[run.task])
    return _Examples(labelled.split(split), labelled.notes)


def _texts(examples: Sequence[Any]) -> Texts:
    """As the model reads them: pairs together, or, of texts to be compared, each alone."""
    first = examples[0]
    if first.label is None and first.other is not None:
        return [text for one in examples for text in (one.text, one.other)]
    return texts_of(examples)


def _pair(text: str, name: str) -> tuple[str, str]:
    first, tab, second = text.partition(TAB)
    if not tab:
        raise DataError(f"{name}: this run reads pairs, and there is no tab in {text!r}")
    return first, second
