"""Translators for experiments: trained as any run is, but kept in memory only."""

from __future__ import annotations

from pathlib import Path
from signal import Signals
from typing import NamedTuple

import torch
from torch import Tensor

from regard.checkpoints.run_folder import RunFolder, fill
from regard.checkpoints.snapshots import Snapshot
from regard.recipes.recipe import load_recipe
from regard.runs.data import Data
from regard.runs.kinds.translator import Run
from regard.runs.objective import TokenLoss
from regard.runs.tasks.translation import prepare_translation
from regard.training.loop import Setup, Trainer


class Translator(NamedTuple):
    """A trained run that lies in no folder, and the data it learned from."""

    run: Run
    data: Data


class Interrupted(KeyboardInterrupt):
    """A signal ended a training early, politely; there is no result."""

    def __init__(self, signal: Signals) -> None:
        super().__init__(signal.name)
        self.signal = signal


class _Nowhere:
    """A store that keeps nothing: an experiment is too short to be resumed."""

    def save(self, snapshot: Snapshot, *, best_step: int | None) -> None:
        pass


def translator(recipe: str, *overrides: str) -> Translator:
    """Train a recipe (with ``key=value`` overrides) to the end of its steps, without validation.

    ``run.translate``, ``run.explain`` and ``evaluate_pairs(run, …)`` work on what comes back.
    """
    asked = load_recipe(
        recipe, ["train.eval_every=1000000", "train.save_every=1000000", *overrides]
    )
    cpu = torch.device("cpu")
    last: dict[str, Tensor] = {}
    with torch.random.fork_rng(devices=[]):
        prepared = prepare_translation(asked, cpu)
        setup = Setup(
            model=prepared.model,
            stream=prepared.stream(),
            objective=TokenLoss(asked.train),
            evaluate=lambda _model: {"loss": 0.0},
            flops=prepared.flops,
            store=_Nowhere(),
            keep_best=last.update,
            device=cpu,
        )
        signal = Trainer(setup, asked.train).run().signal
        if signal is not None:
            raise Interrupted(signal)
    fill(prepared.model, last, "the end of the training")
    run = Run(RunFolder(Path()), asked, prepared.tokenizers, prepared.model.eval(), cpu)
    return Translator(run, prepared.data)
