"""Several translators as one run: each step of a search takes the mean of their probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Never

from typing_extensions import override

from regard.checkpoints.run_folder import RunFolder
from regard.core.errors import ConfigError
from regard.decoding.ensemble import Ensemble
from regard.models.settings import EnsembleConfig
from regard.tasks.translator import Run
from regard.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True, repr=False)
class EnsembleRun(Run):
    """Translators with the same vocabularies that translate together; data and decode settings are
    the first one's.

    Its model is an ``Ensemble``. It has no folder of its own, and nothing is written for it.
    """

    weighs = False
    runs: tuple[Run, ...] = ()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {', '.join(map(repr, self.runs))}>"

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.runs))

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
    """One run of several; other vocabularies or languages than the first one's are refused."""
    first, *others = runs
    for other in others:
        _check_languages(first, other)
        for side in ("target", "source"):
            _check_vocabulary(first, other, side)
    config = EnsembleConfig.of([run.model.config for run in runs])
    model: Any = Ensemble([run.model for run in runs], config).eval()
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


def _check_vocabulary(first: Run, other: Run, side: str) -> None:
    ours, theirs = (getattr(run.tokenizers, side) for run in (first, other))
    found = _difference(ours, theirs)
    if found:
        raise ConfigError(
            f"the runs of an ensemble need the same {side} vocabulary, but {first.folder.path} and "
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
