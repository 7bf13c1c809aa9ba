"""Runs for experiments: trained as any run is, but kept in memory only. Most are translators."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.checkpoints.run_folder import RunFolder, fill
from regard.checkpoints.snapshots import Snapshot
from regard.core.signals import Stop
from regard.data.records import Pair
from regard.data.splits import Data
from regard.recipes.recipe import load_recipe
from regard.runs.prepare import with_vectors
from regard.tasks.base import TASKS, Prepared
from regard.tasks.recipe import Recipe
from regard.tasks.translation_training import prepare_translation
from regard.tasks.translator import Run
from regard.tasks.vectors import VECTORS, WordVectors
from regard.training.loop import Setup, Trainer
from regard.training.losses import Objective
from regard.training.token_loss import TokenLoss

CPU = torch.device("cpu")
ByLength = dict[int, float]
"""Words of the source -> mean score of the sources that have so many."""


N_TRAIN = 20_000
"""Pairs that the translator which several experiments look into is trained on."""


class Translator(NamedTuple):
    """A trained run that lies in no folder, and the data it learned from."""

    run: Run
    data: Data[Pair]


class _Nowhere:
    """A store that keeps nothing: an experiment is too short to be resumed."""

    def save(self, snapshot: Snapshot, *, best_step: int | None) -> None:
        pass

    def wait(self) -> None:
        pass


def translator(recipe: str, *overrides: str) -> Translator:
    """Train a recipe (with ``key=value`` overrides) to the end of its steps, without validation.

    ``run.translate``, ``run.explain`` and ``evaluate_pairs(run, …)`` work on what comes back.
    """
    asked = _asked(recipe, overrides)
    with torch.random.fork_rng(devices=[]):
        prepared = prepare_translation(asked, CPU)
        with_vectors(prepared)  # in place, where train.vectors names some
        model = _trained(prepared, TokenLoss(asked.train))
    run = Run(RunFolder(Path()), asked, prepared.tokenizers, model, CPU)
    return Translator(run, prepared.data)


def word_vectors(texts: Path, *overrides: str) -> WordVectors:
    """Train the recipe ``vectors`` on a file of texts, a line each, in the same way."""
    asked = _asked("vectors", ("data.world=null", f"data.train={texts}", *overrides))
    with torch.random.fork_rng(devices=[]):
        prepared = VECTORS.prepare(asked, CPU)
        model = _trained(prepared, prepared.objective())
    return WordVectors(RunFolder(Path()), asked, prepared.tokenizer, model, CPU)


def _asked(recipe: str, overrides: Sequence[str]) -> Recipe:
    never = ("train.eval_every=1000000", "train.save_every=1000000")
    return load_recipe(recipe, [*never, *overrides])


def _trained(prepared: Prepared, objective: Objective) -> Any:
    """The model after its last step, ready to be used."""
    last: dict[str, Tensor] = {}
    setup = Setup(
        model=prepared.model,
        stream=prepared.stream(),
        objective=objective,
        evaluate=lambda _model: {"loss": 0.0},
        flops=prepared.flops,
        store=_Nowhere(),
        keep_best=last.update,
        device=CPU,
    )
    signal = Trainer(setup, prepared.recipe.train).run().signal
    if signal is not None:
        raise Stop(signal)
    fill(prepared.model, last, "the end of the training")
    return prepared.model.eval()


@lru_cache(maxsize=1)
def sentences_translator(steps: int, n_train: int, seed: int) -> Translator:
    """A small Transformer, English to French, that several experiments look into: trained once."""
    small = ("d_model=96", "d_ff=192", "lr=3e-3", "batch_tokens=512", f"n_train={n_train}")
    return translator("transformer", *small, f"max_steps={steps}", f"seed={seed}")


def opened_translator(run: Path | None, steps: int, seed: int) -> Run:
    """The translator of a run folder or, without one, the small one of these steps and seed."""
    if run is None:
        return sentences_translator(steps, N_TRAIN, seed).run
    found: Run = TASKS["translation"].load(run)
    return found


def toy_translator(task: str, *overrides: str, steps: int, seed: int) -> Translator:
    """The smallest Transformer that learns a toy task in seconds, with ``key=value`` overrides."""
    small = ("d_model=64", "d_ff=128", "n_layers=1", "n_heads=4", "n_train=4000")
    quick = ("lr=5e-3", "warmup_steps=30", "batch_tokens=256", "label_smoothing=0.0")
    return translator(task, *small, *quick, f"max_steps={steps}", f"seed={seed}", *overrides)


def exact_by_length(pairs: Sequence[Pair], translations: Sequence[str]) -> ByLength:
    """Share of translations that equal their target word by word."""
    right = [
        float(text.split() == pair.target.split())
        for pair, text in zip(pairs, translations, strict=True)
    ]
    return _means(pairs, right)


def accuracy_by_length(run: Run, pairs: Sequence[Pair]) -> ByLength:
    """Share of right tokens where the right ones before are given: long texts risk no more.

    An exact match falls with length even where each token is as easy as any other; this does not.
    """
    judged = run.token_scores([pair.source for pair in pairs], [pair.target for pair in pairs])
    return _means(pairs, [float(one.right.float().mean()) for one in judged])


def sentence_losses(run: Run, pairs: Sequence[Pair]) -> NDArray[np.float64]:
    """-log p of a token of each target, the mean over its tokens, right ones before given: (N,)."""
    judged = run.token_scores([pair.source for pair in pairs], [pair.target for pair in pairs])
    return np.array([-float(one.log_probs.mean()) for one in judged])


def _means(pairs: Sequence[Pair], scores: Sequence[float]) -> ByLength:
    groups = defaultdict(list)
    for pair, score in zip(pairs, scores, strict=True):
        groups[len(pair.source.split())].append(score)
    return {length: fmean(groups[length]) for length in sorted(groups)}
