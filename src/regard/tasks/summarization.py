"""Summarization: a long document is read, and a short text written that says what matters.

All that reads a source and writes a target is the translator's; here is what documents add: their
records, ROUGE, what becomes of those that are too long, and whether facts are found and looked at.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from typing_extensions import override

from regard.core.errors import ConfigError, DataError
from regard.core.numbers import counted
from regard.data.examples import LongRule
from regard.data.records import Document
from regard.data.shards import Manifest
from regard.data.splits import Data, load_records, split_of
from regard.evaluation.attention import Watched
from regard.evaluation.facts import FACT_ATTENTION, FACT_METRICS
from regard.evaluation.metrics import computed
from regard.inspection.capture import CROSS
from regard.tasks.base import TASKS, Evaluation, JudgedRun, Task
from regard.tasks.importance import ForcedAnswer
from regard.tasks.look import Look
from regard.tasks.opening import TrainedRun, one_or_many, one_text
from regard.tasks.recipe import Recipe
from regard.tasks.sharded import shard_pairs
from regard.tasks.translation import TranslationTask
from regard.tasks.translation_scores import likelihood, watched_words
from regard.tasks.translation_training import PreparedTranslation, prepare_translation
from regard.tasks.translator import LengthWarnings, Run, load_pair_run
from regard.tasks.verb import Form
from regard.tasks.writing_verbs import SUMMARIZE
from regard.text.tokenizer import Tokenizer

OWN_METRICS = ("rouge_l",)
TEST_METRICS = ("rouge1", "rouge2", "rouge_l", "exact_match")
SAMPLE_CHARACTERS = 400
"""Of a document that is shown in a report."""
WATCHED, WATCHED_WORDS = 100, 100_000
"""Documents of a set that are watched, and the most words of all of them."""


@dataclass(frozen=True, slots=True, repr=False)
class Summarizer(Run):
    """A trained summarizer: a translator from documents to summaries."""

    @property
    @override
    def kind(self) -> str:
        return self.task

    def __str__(self) -> str:
        lines = Run.__str__(self).split("\n")
        return "\n".join(line for line in lines if not line.startswith("languages"))

    def summarize(
        self, documents: str | Sequence[str], *, truncate: bool = False, **how: Any
    ) -> Any:
        """Summarize a document, or a list of them: str -> str, list -> list.

        One that is longer than the model reads is refused, or its end cut off (``truncate``).
        ``how`` is all that ``translate`` takes: a beam, ``n_best``, ``with_scores``, a prefix.
        """
        texts = [self.readable(one, truncate=truncate) for one in one_or_many(documents)]
        return self.translate(texts[0] if isinstance(documents, str) else texts, **how)

    @property
    def cuts(self) -> bool:
        """Whether the recipe has documents cut that are too long."""
        return self.recipe.data.truncate

    def readable(self, document: str, *, truncate: bool = False) -> str:
        """The document, or the part of it that the model reads; else why it cannot be read."""
        shown = self.cut(one_text(document)) if truncate or self.cuts else one_text(document)
        if (why := self.unreadable(shown)) is not None:
            raise DataError(why)
        return shown

    def cut(self, document: str) -> str:
        """As many whole words from the beginning as the model reads with the end token."""
        tokenizer, room = self.tokenizers.source, self.model.config.max_len - 1
        ends = [end for _, end in tokenizer.offsets(document)]
        if len(ends) <= room:
            return document
        owners = tokenizer.word_ids(document)
        last = next((i for i in range(room, 0, -1) if owners[i] != owners[i - 1]), room)
        return document[: ends[last - 1]]

    @override
    def fits(self, source: str, target: str = "") -> bool:
        """Whether the source is no longer than what was trained on, and both can be read."""
        n_source = len(self.tokenizers.source.encode(source))
        return n_source < self.model.config.max_len and Run.fits(self, source, target)

    @override
    def too_long(self, text: str, tokenizer: Tokenizer | None = None) -> str:
        n_tokens = len((tokenizer or self.tokenizers.source).encode(text)) + 1
        return (
            f"{n_tokens} tokens with the end token, but the model reads "
            f"{self.model.config.max_len} (model.max_len); shorten the document, let summarize cut "
            "it (--truncate, truncate=True), or train with a larger model.max_len"
        )

    @override
    def explain(self, source: str, target: str | None = None, edit: Any = ()) -> Look:
        return replace(Run.explain(self, self.readable(source), target, edit), task=self.task)

    @override
    def fixed_answer(self, source: str, target: str | None = None, edit: Any = ()) -> ForcedAnswer:
        return Run.fixed_answer(self, self.readable(source), target, edit)

    @override
    def facts(self) -> dict[str, Any]:
        return TrainedRun.facts(self)

    @override
    def _no_warnings(self) -> LengthWarnings:
        return replace(
            Run._no_warnings(self),
            what=("summary", "summaries"),
            remedy="raise decode.max_len where summaries are longer",
        )


def load_summarizer(path: str | Path, *, device: str | None = None) -> Summarizer:
    """Open the folder of a summarizer. Nothing in it is executed."""
    return load_pair_run(path, Summarizer, "summarization", "a summarizer", device)


# ------------------------------------------------------------------ scores


def evaluate_documents(
    run: Summarizer, documents: Sequence[Document], *, split: str, beam: int | None = None
) -> Evaluation:
    """ROUGE of the summaries of any documents, facts where they are known, and log-perplexity.

    Documents that are too long are cut where the recipe says so, and ``cut`` is their number; else
    they count as not summarized.
    Of several references the first counts, as it is the one that is learned; the best of them
    counts in ``rouge_l_multi`` and its kin.
    """
    read = [replace(one, source=run.cut(one.source)) if run.cuts else one for one in documents]
    n_cut = sum(a.source != b.source for a, b in zip(read, documents, strict=True))
    short = [one for one in read if run.fits(one.source, one.target)]
    sources = [one.source if run.fits(one.source) else "" for one in read]
    summaries, references = run.written(sources, beam=beam), [one.target for one in read]
    told = FACT_METRICS if all(one.facts for one in read) else ()
    names = dict.fromkeys((*TEST_METRICS, *told, *run.recipe.train.metrics))
    judged: dict[str, float] = likelihood(run, short)
    if judged:
        judged["log_perplexity"] = math.log(judged["perplexity"])
    scores = {
        "task": run.task,
        "split": split,
        "n": len(read),
        **computed(names, summaries, references),
        **_multi(read, summaries),
        **judged,
    }
    if len(short) < len(read):
        scores["too_long"] = len(read) - len(short)
    if run.cuts:
        scores["cut"] = n_cut
    notes = []
    if n_cut:
        notes.append(f"{split}: {n_cut} documents cut to max_len={run.model.config.max_len} tokens")
    if long := [one.source for one in read if not run.fits(one.source)]:
        why = run.too_long(max(long, key=len))
        n = counted(len(long), "document")
        notes.append(f"{split}: {n} too long, summaries left empty; the longest has {why}")
    return Evaluation(scores, summaries, tuple(notes), references)


def _multi(documents: Sequence[Document], summaries: Sequence[str]) -> dict[str, Any]:
    """ROUGE with the best of all references; nothing where all have one."""
    if not any(one.references for one in documents):
        return {}
    several = [one.references or (one.target,) for one in documents]
    found = computed(("rouge1", "rouge2", "rouge_l"), summaries, several)
    return {
        name.replace("_signature", "_multi_signature") if "_sig" in name else f"{name}_multi": value
        for name, value in found.items()
    }


def evaluate_split(
    run: Summarizer, data: Data[Document], split: str, *, beam: int | None = None
) -> Evaluation:
    """Scores on a split of the data that the run was trained with."""
    remedy = "; files of your own: --source and --reference (source=, reference=)"
    documents = split_of(data.splits, split, remedy=remedy)
    evaluation = evaluate_documents(run, documents, split=split, beam=beam)
    evaluation.scores.update(fact_attention(run, data.splits["valid"], documents))
    return evaluation


def fact_attention(
    run: Summarizer, valid: Sequence[Document], test: Sequence[Document]
) -> dict[str, float | str]:
    """How much of cross-attention lies on the sentences of a fact while its word is written.

    The head, or the mean of a layer, is chosen on ``valid`` and scored on ``test``, beside the same
    weights shuffled. Nothing, where the data knows no facts or the model has no cross-attention.
    """
    watched = [[*map(partial(_watched, run), _watchable(run, some))] for some in (valid, test)]
    if not all(watched) or not watched[0][0].weights:
        return {}
    choice = FACT_ATTENTION.chosen(*watched)
    return {
        "fact_attention": choice.test,
        "fact_attention_by": str(choice.label),
        "fact_attention_shuffled": choice.baseline,
    }


def _watchable(run: Summarizer, documents: Sequence[Document]) -> list[Document]:
    """The first that have facts and fit, as many as there is room for."""
    found: list[Document] = []
    left = WATCHED_WORDS
    for one in documents[:WATCHED]:
        if one.facts and left > 0 and run.fits(one.source, one.target):
            found.append(one)
            left -= len(run.tokenizers.source.encode(one.source))
    return found


def _watched(run: Summarizer, document: Document) -> Watched:
    """The rows of the words that state facts, one document at a time: whole matrices are large."""
    links = [(s, t) for fact in document.facts for t in fact.stated for s in fact.positions]
    (whole,) = watched_words(run, [document], CROSS, [links])
    rows = sorted({target for _, target in links})
    weights = {name: one[rows].astype(np.float32) for name, one in whole.weights.items()}
    return Watched(weights, tuple((source, rows.index(target)) for source, target in links))


# ------------------------------------------------------------------ training


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedSummarization(PreparedTranslation):
    """Documents with summaries, a tokenizer and a fresh summarizer."""

    @property
    @override
    def own_metrics(self) -> tuple[str, ...]:
        return (*OWN_METRICS, *(FACT_METRICS if self.recipe.data.world == "documents" else ()))

    @property
    @override
    def size(self) -> dict[str, int]:
        sizes = {"training documents": len(self.train)}
        return {**sizes, "vocabulary": self.tokenizers.target.n_vocab}

    @override
    def scored(self, run: Run, split: str) -> Evaluation:
        assert isinstance(run, Summarizer)
        return evaluate_split(run, self.data, split)  # type: ignore[arg-type]

    @override
    def judged(self, out: Path, test_sets: Sequence[str] | None) -> JudgedRun:
        """With some summaries, and how their documents begin."""
        judged = PreparedTranslation.judged(self, out, test_sets)
        samples = [
            (f"{source[:SAMPLE_CHARACTERS]}…", said, right)
            for source, said, right in judged.samples
        ]
        return replace(judged, samples=samples)


def prepare_summarization(
    recipe: Recipe, device: torch.device, *, begun: Path | None = None, cache: Path | None = None
) -> PreparedTranslation:
    """As a translator is prepared; a document that is too long is cut or refused."""
    return prepare_translation(
        recipe,
        device,
        begun=begun,
        cache=cache,
        records="summary",
        long_lines=_rule(recipe),
        kind=PreparedSummarization,
    )


def _rule(recipe: Recipe) -> LongRule:
    """What becomes of documents that are too long."""
    return "truncate" if recipe.data.truncate else "refuse"


class SummarizationTask(TranslationTask):
    """Documents with summaries, and a model that reads one and writes the other."""

    name = "summarization"
    hub_task = "summarization"
    verbs = (SUMMARIZE,)
    records = "summary"
    heeds = TranslationTask.heeds - {"data.long_lines"} | {"data.truncate", "data.document_length"}
    scored_split = staticmethod(evaluate_split)  # type: ignore[assignment]
    scored_pairs = staticmethod(evaluate_documents)  # type: ignore[assignment]
    prepare = staticmethod(prepare_summarization)  # type: ignore[assignment]
    load = staticmethod(load_summarizer)
    ensemble = Task.ensemble  # refuses: a summarizer's own limits are not an ensemble's
    of_world: ClassVar[int] = 2
    """Examples that the page has of a world."""

    @override
    def shard(self, recipe: Recipe, *, n_workers: int, say: Callable[[str], None]) -> Manifest:
        return shard_pairs(recipe, self.records, _rule(recipe), n_workers=n_workers, say=say)

    @override
    def score_alignments(self, run: Run, sentences: Path, gold: Path) -> Evaluation:
        raise ConfigError(
            "the words of a summary are not aligned: leave out --alignments (alignments=)"
        )

    @override
    def examples(self, run: Run) -> list[str]:
        data = run.recipe.data
        if data.world is None:
            return TranslationTask.examples(self, run)
        documents = load_records(data, self.records).splits["valid"][: self.of_world]
        return [one.source for one in documents if run.fits(one.source)]

    @override
    def form(self, run: Run) -> Form:
        return Form(
            label="A document",
            go="Summarize",
            answer="Summary",
            hint="All of it is one document.",
            about="summarization",
            stands="The summary stands.",
            views=("lines", "matrix", "grid", "rollout", "beam", "heads"),
            edits=("ablate", "force", "temperature", "no_positions", "swap", "force_token"),
        )

    @override
    def info(self, run: Run) -> dict[str, Any]:
        return {}


TASKS.add("summarization")(SummarizationTask())
