"""Training a recipe into a run folder."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from regard.checkpoints.run_folder import (
    RunFolder,
    load_settings,
    save_model,
    save_settings,
)
from regard.checkpoints.snapshots import Snapshot, SnapshotStore
from regard.core.errors import CheckpointError, ConfigError
from regard.core.files import write_whole
from regard.recipes.recipe import Recipe, recipe_from
from regard.runs.device import pick_device
from regard.runs.estimate import Estimate, estimate, peak_memory
from regard.runs.evaluate import Evaluation, evaluate_split
from regard.runs.prepare import Prepared, prepare
from regard.runs.report import write_report
from regard.runs.run import Run, load
from regard.runs.translation import objective
from regard.training.loop import Observer, Outcome, Setup, Trainer
from regard.training.metrics import MetricsLog

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Trained:
    """How a training ended, and what its model can do; no scores if it was interrupted."""

    folder: RunFolder
    outcome: Outcome
    evaluations: dict[str, Evaluation]
    run: Run | None


def train(
    recipe: Recipe,
    out: Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    device: str | None = None,
    observers: Sequence[Observer] = (),
    say: Say = lambda _text: None,
) -> Trained | None:
    """Train, validate, score and report. None where ``resume`` finds a finished run.

    ``say`` is told in words what happens, ``observers`` in numbers.
    """
    folder = RunFolder(out)
    _claim(folder, recipe, resume=resume, overwrite=overwrite)
    if resume and folder.finished():
        return None
    place = pick_device(device)
    with torch.random.fork_rng(devices=[place] if place.type == "cuda" else []):
        prepared = prepare(recipe, place)
        for note in prepared.notes:
            say(note)
        expected = estimate(prepared)
        outcome = _trained(prepared, folder, resume, observers, say)
    if outcome.signal is not None:
        return Trained(folder, outcome, {}, None)
    began = time.perf_counter()
    run = load(out, device=str(place))
    evaluations = {
        split: evaluate_split(run, prepared.data, split) for split in prepared.data.test_sets
    }
    facts = _facts(outcome, evaluations, expected, place, time.perf_counter() - began)
    write_report(run, prepared.data, evaluations, facts)
    # Written last, the scores mark the run as finished.
    write_whole(folder.scores, json.dumps(facts, indent=2, ensure_ascii=False) + "\n")
    return Trained(folder, outcome, evaluations, run)


def _claim(folder: RunFolder, recipe: Recipe, *, resume: bool, overwrite: bool) -> None:
    """Make sure that the folder is ours to write to."""
    if resume and folder.settings.exists():
        _same(recipe, recipe_from(load_settings(folder)), folder)
    elif folder.exists() and not (resume or overwrite):
        raise CheckpointError(
            f"{folder.path} already holds a run; go on with --resume, replace it with "
            "--overwrite, or choose another --out"
        )
    elif folder.path.exists() and not folder.path.is_dir():
        raise CheckpointError(f"{folder.path} is a file; choose another --out")
    elif overwrite:
        _clear(folder)


def _same(asked: Recipe, begun: Recipe, folder: RunFolder) -> None:
    """A run that is resumed must be the run that was begun."""
    new, old = asked.model_dump(mode="json"), begun.model_dump(mode="json")
    changes = [
        f"{section}.{key} was {old[section][key]!r} and is now {value!r}"
        for section, keys in new.items()
        for key, value in keys.items()
        if old[section][key] != value
    ]
    if changes:
        raise ConfigError(f"{folder.path} was begun with other settings: {'; '.join(changes)}")


def _clear(folder: RunFolder) -> None:
    """Delete what runs write, and nothing else."""
    for path in (folder.checkpoints, folder.path / "tensorboard"):
        shutil.rmtree(path, ignore_errors=True)
    names = ("config.yaml", "config.json", "model.safetensors", "tokenizer.json", "source.json")
    for name in (*names, "target.json", "metrics.jsonl", "scores.json", "report.html"):
        (folder.path / name).unlink(missing_ok=True)


def _trained(
    prepared: Prepared, folder: RunFolder, resume: bool, observers: Sequence[Observer], say: Say
) -> Outcome:
    """Run the loop, from the latest snapshot if there is one to resume from."""
    save_settings(folder, prepared.recipe.model_dump(mode="json"))
    prepared.tokenizers.save(folder.path)
    store = SnapshotStore(folder.checkpoints)
    snapshot: Snapshot | None = store.latest() if resume else None
    metrics = MetricsLog(folder.metrics, first_step=snapshot.step if snapshot else 0)
    setup = Setup(
        model=prepared.model,
        stream=prepared.stream(),
        objective=objective(prepared.recipe.train.label_smoothing),
        evaluate=prepared.validation(),
        flops=prepared.flops,
        store=store,
        keep_best=lambda weights: save_model(folder, prepared.config, weights),
        device=prepared.device,
        observers=(metrics, *observers),
    )
    trainer = Trainer(setup, prepared.recipe.train)
    if snapshot is not None:
        trainer.restore(snapshot)
        say(f"resuming at step {snapshot.step}")
    try:
        return trainer.run()
    finally:
        metrics.close()


def _facts(
    outcome: Outcome,
    evaluations: dict[str, Evaluation],
    expected: Estimate,
    device: torch.device,
    ending_seconds: float,
) -> dict[str, Any]:
    """What goes into scores.json: scores, and cost as it was expected and as it came."""
    progress = outcome.progress
    return {
        "scores": {name: evaluation.scores for name, evaluation in evaluations.items()},
        "ended": outcome.reason,
        "estimate": asdict(expected),
        "measured": {
            "steps": progress.step,
            "tokens": progress.tokens,
            "flops": progress.flops,
            "seconds": progress.seconds,
            "ending_seconds": ending_seconds,
            "memory_bytes": peak_memory(device),
            "best_step": progress.best_step,
        },
    }
