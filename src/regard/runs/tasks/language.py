"""A language model before its first step: from a recipe to all that training needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.core.files import write_whole
from regard.data.batch import Batch
from regard.data.examples import Ids
from regard.data.exercises import Exercises, exercise_splits
from regard.data.language_windows import Tape, window_stream
from regard.data.plain_texts import Texts, text_splits
from regard.data.stream import Stream
from regard.models.base import LazyLogits
from regard.models.decoder import DecoderConfig, LanguageModel
from regard.recipes.recipe import Recipe
from regard.runs.evaluation import test_sets_of
from regard.runs.kinds.writer import load_writer
from regard.runs.prepared import SHORT, Judged, Prepared
from regard.runs.reports.language import write_language_report
from regard.runs.tasks.language_beginning import begin_language
from regard.runs.tokenizers import SHARED
from regard.runs.writing.framing import Framing, framing_for
from regard.runs.writing.language_scores import judged, summed_up
from regard.text.chat import TEMPLATE
from regard.text.tokenizer import Tokenizer
from regard.training.flops import TextFlops, text_flops
from regard.training.losses import Losses, StatelessObjective, cross_entropy
from regard.training.settings import TrainSettings


class NextTokenLoss(StatelessObjective):
    """Cross-entropy of every next token, summed over a batch of windows, all of them full."""

    def __init__(self, settings: TrainSettings, *, compiled: bool = False) -> None:
        self.smoothing = settings.label_smoothing
        self._lazy_logits = torch.compile(_lazy_logits) if compiled else _lazy_logits

    def __call__(self, model: LanguageModel, batch: Batch) -> Losses:
        """Without the logits of all tokens at once."""
        logits = self._lazy_logits(model, batch.target_in)
        loss = cross_entropy(logits, batch.target_out, label_smoothing=self.smoothing)
        return Losses.of("cross_entropy", loss, batch.n_target_tokens)


def _lazy_logits(model: LanguageModel, ids: Tensor) -> LazyLogits:
    return model(ids, lazy=True)


class LanguageValidation:
    """An evaluator for the training loop, on windows that do not overlap."""

    def __init__(self, ids: Ids, device: torch.device) -> None:
        self.ids, self.device = ids, device

    def __call__(self, model: LanguageModel) -> Mapping[str, float]:
        """``loss`` in nats a token, without smoothing, and ``perplexity``."""
        scores = summed_up(judged(model, self.ids, device=self.device))
        return {name: scores[name] for name in ("loss", "perplexity", "accuracy")}

    def rehearse(self, model: LanguageModel) -> None:
        """As much as a validation."""
        self(model)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedLanguage(Prepared):
    """Texts end to end, their tokenizer and a fresh language model."""

    config: DecoderConfig
    model: LanguageModel
    splits: Mapping[str, Texts]
    exercises: Exercises
    """The tasks that the texts are made of, where they are."""
    framing: Framing
    tape: Tape
    formula: TextFlops
    template: str | None
    """How conversations are written down for the model, where it knows them."""

    @property
    def size(self) -> dict[str, int]:
        """As ``Prepared.size``."""
        return {
            "training texts": len(self.splits["train"]),
            "training tokens": len(self.tape.ids),
            "vocabulary": self.config.n_vocab,
        }

    @property
    def vocabularies(self) -> tuple[Tokenizer, ...]:
        """As ``Prepared.vocabularies``."""
        return (self.framing.tokenizer,)

    def stream(self) -> Stream:
        """As ``Prepared.stream``."""
        return window_stream(self.tape, batch_tokens=self.recipe.train.batch_tokens)

    @property
    def compiled(self) -> bool:
        """As ``Prepared.compiled``; by default on a GPU, unless the run is short."""
        settings = self.recipe.train
        if settings.compile != "auto":
            return settings.compile
        return self.device.type == "cuda" and (settings.max_steps or SHORT) >= SHORT

    @property
    def captured(self) -> bool:
        """As ``Prepared.captured``: all windows have one shape."""
        on_gpu = self.device.type == "cuda"
        return on_gpu and self.compiled and self.recipe.train.accumulate == 1

    def objective(self) -> NextTokenLoss:
        """As ``Prepared.objective``."""
        return NextTokenLoss(self.recipe.train, compiled=self.compiled)

    def validation(self) -> LanguageValidation:
        """As ``Prepared.validation``."""
        return LanguageValidation(self.framing.laid(self.splits["valid"]), self.device)

    def flops(self, batch: Batch) -> float:
        """As ``Prepared.flops``."""
        n_rows, n_ids = batch.target.shape
        return self.formula.training(n_rows, n_ids - 1)

    def example(self, number: int) -> str:
        """As ``Prepared.example``: the window that begins there."""
        return self.framing.say(self.tape.ids[number : number + self.tape.max_len].tolist())

    def judged(self, out: Path, test_sets: Sequence[str] | None) -> Judged:
        """As ``Prepared.judged``."""
        run = load_writer(out, device=str(self.device))
        names = test_sets_of(self.splits) if test_sets is None else test_sets
        evaluations = {}
        for name in names:
            found = run.evaluate_texts(self.splits[name], split=name)
            evaluations[name] = run.with_parts(found, self.exercises.get(name, ()))
        return Judged(run, evaluations)

    def report(self, judged: Judged, facts: Mapping[str, Any]) -> None:
        """As ``Prepared.report``."""
        write_language_report(judged.run, facts)

    def save(self, folder: Path) -> None:
        """As ``Prepared.save``."""
        self.framing.tokenizer.save(folder / SHARED)
        if self.template is not None:
            write_whole(folder / TEMPLATE, self.template)


def prepare_language(
    recipe: Recipe, device: torch.device, *, begun: Path | None = None, cache: Path | None = None
) -> PreparedLanguage:
    """Read the texts, train a tokenizer unless the run was begun, build the model.

    Draws from torch's default generator, which is left where the first training step begins.
    """
    del cache  # ids are made as fast as they would be read
    exercises = exercise_splits(recipe.data)
    splits = text_splits(recipe.data, exercises)
    begin = begin_language(recipe, splits["train"], device, begun)
    config, framing = begin.model.config, framing_for(begin.tokenizer, recipe.data)
    return PreparedLanguage(
        recipe=recipe,
        splits=splits,
        exercises=exercises,
        framing=framing,
        tape=Tape(framing.laid(splits["train"]), config.max_len, recipe.train.seed),
        config=config,
        formula=text_flops(begin.model, config.longest),
        model=begin.model.to(device),
        template=begin.template,
        notes=(*begin.notes, *_notes(framing, splits)),
        device=device,
    )


def _notes(framing: Framing, splits: Mapping[str, Texts]) -> tuple[str, ...]:
    """Unknown words make a model look better than it is."""
    unknown = framing.tokenizer.marks.unknown
    if framing.tokenizer.kind == "bpe" or unknown is None:
        return ()
    ids = framing.laid(splits["valid"])
    n = int((ids == unknown).sum())
    share = 100 * n / len(ids)
    return (f"valid: {n:,} tokens ({share:.1f} %) are read as <unk>",) if n else ()
