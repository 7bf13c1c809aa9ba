"""Several translators as one run: each step of a search takes the mean of their probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Any, Never

from typing_extensions import override

from regard.checkpoints.run_folder import RunFolder
from regard.core.errors import ConfigError
from regard.decoding.ensemble import Ensemble, joined_source
from regard.decoding.hypothesis import Hypothesis
from regard.models.settings import EnsembleConfig
from regard.tasks.translator import LengthWarnings, Run
from regard.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True, repr=False)
class EnsembleRun(Run):
    """Translators with the same target vocabulary that translate together.

    Each reads a source with its own tokenizer. Data and decode settings are the first one's; so
    are the tokens that limit the length of a target, and the words that are told as unknown. Its
    model is an ``Ensemble``. It has no folder of its own, and nothing is written for it.
    """

    weighs = False
    runs: tuple[Run, ...] = ()

    def __post_init__(self) -> None:
        for name in ("replace_unknown", "coverage_penalty"):
            if self._starts and getattr(self.recipe.decode, name):
                raise ConfigError(
                    f"decode.{name} of {self.runs[0].folder.path} goes by attention to source "
                    "tokens, and runs of different source vocabularies have different ones; name "
                    "a run first that leaves it out, or take runs of one source vocabulary"
                )

    @property
    def _starts(self) -> tuple[int, ...]:
        """Where each run's ids begin in a source; none where all read the same ids."""
        model: Any = self.model
        return tuple(model.source_starts)

    @property
    @override
    def members(self) -> tuple[Run, ...]:
        return self.runs

    @override
    def written_at(self) -> float:
        return max(run.written_at() for run in self.runs)

    @override
    def source_ids(self, texts: Sequence[str]) -> list[list[int]]:
        if not self._starts:
            return Run.source_ids(self, texts)
        several = zip(*(run.source_ids(texts) for run in self.runs), strict=True)
        return [joined_source(each, self._starts) for each in several]

    @override
    def length_warnings(self, texts: Sequence[str], best: Sequence[Hypothesis]) -> LengthWarnings:
        """Long are the sources that are too long for the run for which most are."""
        found = Run.length_warnings(self, texts, best)
        each = (run.length_warnings(texts, best) for run in self.runs)
        most = max(each, key=lambda one: (one.n_long, -one.trained))
        return replace(found, n_long=most.n_long, trained=most.trained)

    @override
    def fits(self, source: str, target: str = "") -> bool:
        return all(run.fits(source, target) for run in self.runs)

    @override
    def too_long(self, text: str, tokenizer: Tokenizer | None = None) -> str:
        sides = (text,) if tokenizer is None else ("", text)
        return next(run for run in self.runs if not run.fits(*sides)).too_long(text, tokenizer)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {', '.join(map(repr, self.runs))}>"

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.runs))

    @override
    def heads(self, *_args: Any, **_options: Any) -> Never:
        self.explain()

    @override
    def facts(self) -> dict[str, Any]:
        presets = [run.recipe.model.preset for run in self.runs]
        return {**Run.facts(self), "preset": " + ".join(map(str, presets))}

    @override
    def fixed_answer(self, *_args: Any, **_options: Any) -> Never:
        self.explain()

    @override
    def explain(self, *_args: Any, **_options: Any) -> Never:
        folders = ", ".join(str(run.folder.path) for run in self.runs)
        raise ConfigError(
            f"each run of an ensemble looks with attentions of its own: look into one of {folders}"
        )


def ensemble_of(runs: Sequence[Run]) -> EnsembleRun:
    """One run of several; other languages or target vocabularies than the first's are refused."""
    first, *others = runs
    for other in others:
        _check_languages(first, other)
        _check_target_vocabulary(first, other)
    config = EnsembleConfig.of([run.model.config for run in runs])
    model: Any = Ensemble([run.model for run in runs], config, _source_starts(runs)).eval()
    folder = RunFolder(Path(" + ".join(run.folder.path.resolve().name for run in runs)))
    return EnsembleRun(
        folder, first.recipe, first.tokenizers, model, first.device, runs=tuple(runs)
    )


def _check_languages(first: Run, other: Run) -> None:
    if first.kind != other.kind:
        raise ConfigError(
            f"{first.folder.path} translates {first.kind} and {other.folder.path} {other.kind}: "
            "runs of an ensemble translate between the same languages"
        )


def _source_starts(runs: Sequence[Run]) -> list[int]:
    """Where each run's ids begin, one source vocabulary after another; none where all are one."""
    readers = [run.tokenizers.source for run in runs]
    if len({(one.to_json(), one.plain) for one in readers}) == 1:
        return []
    return list(accumulate((one.n_vocab for one in readers[:-1]), initial=0))


def _check_target_vocabulary(first: Run, other: Run) -> None:
    found = _difference(first.tokenizers.target, other.tokenizers.target)
    if found:
        raise ConfigError(
            f"the runs of an ensemble need the same target vocabulary, but {first.folder.path} and "
            f"{other.folder.path} have {found}; train them with the same data and text settings"
        )


def _difference(ours: Tokenizer, theirs: Tokenizer) -> str:
    """How two tokenizers differ; nothing, where they read and write alike."""
    if ours.n_vocab != theirs.n_vocab:
        return f"{ours.n_vocab:,} and {theirs.n_vocab:,} tokens"
    tokens = zip(*(one.tokens(range(one.n_vocab)) for one in (ours, theirs)), strict=True)
    for number, (one, another) in enumerate(tokens):
        if one != another:
            return f"different tokens, the first of them {number}: {one!r} and {another!r}"
    same = ours.to_json() == theirs.to_json()
    return "" if same else "the same tokens but cut texts into them differently"
