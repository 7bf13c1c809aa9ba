"""Training a recipe into a run folder."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from regard.checkpoints.run_folder import (
    RunFolder,
    SnapshotStore,
    check_links,
    load_settings,
    save_config,
    save_model,
    save_settings,
)
from regard.core.errors import CheckpointError, ConfigError, TrainingError
from regard.core.files import telling, write_whole
from regard.data.stream import Prefetched
from regard.evaluation.metrics import METRICS
from regard.models.presets import n_parameters
from regard.runs.estimate import estimate
from regard.runs.prepare import prepare
from regard.tasks.base import TASKS, Evaluation, Prepared
from regard.tasks.opening import memory_told, peak_memory, pick_device
from regard.tasks.recipe import Recipe, recipe_from, remember_data
from regard.training.distributed import Ranks
from regard.training.loop import Observer, Outcome, Setup, Trainer
from regard.training.metrics import MetricsLog, NotFiniteError
from regard.training.update import CapturedUpdate, Update

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Trained:
    """How a training ended, and what its model can do; no scores if it was interrupted."""

    folder: RunFolder
    outcome: Outcome
    evaluations: dict[str, Evaluation]
    run: Any


def train(
    recipe: Recipe,
    out: Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    device: str | None = None,
    test_sets: Sequence[str] | None = None,
    observers: Sequence[Observer] = (),
    say: Say = lambda _text: None,
) -> Trained | None:
    """Train, validate, score and report. None where ``resume`` finds a finished run.

    ``test_sets`` are scored at the end, all there are where none are named. ``say`` is told in
    words what happens, ``observers`` in numbers.
    """
    folder = RunFolder(out)
    _claim(folder, recipe, resume=resume, overwrite=overwrite)
    remember_data(out, recipe.data)
    if resume and folder.finished():
        return None
    place = pick_device(device)
    begun = resume and folder.settings.exists()
    snapshot = SnapshotStore(folder.checkpoints).latest(say) if begun else None
    with torch.random.fork_rng(devices=[place] if place.type == "cuda" else []):
        prepared = prepare(recipe, place, begun=out if snapshot else None, cache=out / "ids")
        for note in prepared.notes:
            say(note)
        # Compiling or recording twice would take longer than many a training: ``--dry-run`` tells
        # what it costs.
        expected = None if prepared.compiled or prepared.captured else estimate(prepared)
        trainer = _trainer(prepared, folder)
        if snapshot is not None:
            trainer.restore(snapshot)
            say(f"resuming at step {snapshot.step}")
        else:
            if resume:
                say(f"nothing to resume in {out}; starting at step 0")
            _begin(prepared, folder)  # only now is nothing left that could go wrong
        outcome = _run(trainer, prepared, folder, observers)
    if outcome.signal is not None:
        return Trained(folder, outcome, {}, None)
    began = time.perf_counter()
    judged = prepared.judged(out, test_sets)
    progress = outcome.progress
    facts = {  # of scores.json: scores, and cost as it was expected and as it came
        "scores": {name: one.scores for name, one in judged.evaluations.items()},
        "ended": outcome.reason,
        "estimate": None if expected is None else asdict(expected),
        "measured": {
            "parameters": n_parameters(prepared.model),
            "steps": progress.step,
            "tokens": progress.tokens,
            "flops": progress.flops,
            "seconds": progress.seconds,
            "ending_seconds": time.perf_counter() - began,
            "memory_bytes": peak_memory(place),
            "best_step": progress.best_step,
        },
    }
    prepared.report(judged, facts)
    # Written last, the scores mark the run as finished.
    write_whole(folder.scores, json.dumps(facts, indent=2, ensure_ascii=False) + "\n")
    return Trained(folder, outcome, judged.evaluations, judged.run)


def _claim(folder: RunFolder, recipe: Recipe, *, resume: bool, overwrite: bool) -> None:
    """Refuse a folder that is not ours to write to; nothing is touched yet."""
    if folder.path.exists() and not folder.path.is_dir():
        raise CheckpointError(f"{folder.path} is a file; choose another --out")
    check_links(folder)
    if resume and folder.settings.exists():
        begun = recipe_from(load_settings(folder))
        old, new = (one.model_dump(mode="json", exclude={"plugins"}) for one in (begun, recipe))
        if changes := list(settings_changes(old, new, depth=1)):
            raise ConfigError(f"{folder.path} was begun with other settings: {'; '.join(changes)}")
    elif folder.settings.exists() and not overwrite:
        raise CheckpointError(
            f"{folder.path} already holds a run; go on with --resume, replace it with "
            "--overwrite, or choose another --out"
        )
    elif folder.model_config.exists() and not overwrite:
        raise CheckpointError(
            f"{folder.path} holds a model that was not trained here: it has a "
            f"{folder.model_config.name} and no {folder.settings.name}; replace it with "
            "--overwrite, or choose another --out"
        )


def settings_changes(
    old: Mapping[str, Any], new: Mapping[str, Any], *, depth: int, where: str = ""
) -> Iterator[str]:
    """What both name and do not agree on; sections lie up to ``depth`` deep in one another."""
    for key in [key for key in new if key in old]:
        was, value = old[key], new[key]
        if depth and isinstance(was, dict) and isinstance(value, dict):
            yield from settings_changes(was, value, depth=depth - 1, where=f"{where}{key}.")
        elif was != value:
            yield f"{where}{key} was {was!r} and is now {value!r}"


def _begin(prepared: Prepared, folder: RunFolder) -> None:
    """Delete what an earlier run, of any task, wrote and nothing else; write what was asked for.

    Snapshots go first and settings last: whenever this is cut short, no new run can take up the
    old one's snapshots, and what is left of the old one is never taken for a finished run.
    """
    with telling(folder.path):
        for name in (folder.checkpoints.name, "tensorboard"):
            if (folder.path / name).exists():
                shutil.rmtree(folder.path / name)
        of_tasks = {folder.path / name for task in TASKS.values() for name in task.files}
        of_any = (folder.model_config, folder.weights, folder.metrics, folder.report)
        for path in (folder.scores, *of_any, *of_tasks, folder.settings):
            path.unlink(missing_ok=True)
    save_settings(folder, prepared.recipe.model_dump(mode="json"))
    save_config(folder, prepared.config)
    prepared.save(folder.path)


def _trainer(prepared: Prepared, folder: RunFolder) -> Trainer:
    """A training that has not begun."""
    settings = prepared.recipe.train
    ranks = Ranks.current()
    stream = prepared.stream().shard(ranks.rank, ranks.n)
    setup = Setup(
        model=prepared.model,
        stream=Prefetched(stream, pin=prepared.device.type == "cuda"),
        objective=prepared.objective(),
        evaluate=prepared.validation(),
        flops=prepared.flops,
        store=SnapshotStore(folder.checkpoints, keep=settings.keep),
        keep_best=lambda weights: save_model(folder, prepared.config, weights),
        device=prepared.device,
        cost=METRICS[settings.criterion].cost,
        make_update=CapturedUpdate if prepared.captured else Update,
        ranks=ranks,
    )
    return Trainer(setup, settings)


def _run(
    trainer: Trainer, prepared: Prepared, folder: RunFolder, observers: Sequence[Observer]
) -> Outcome:
    """Run the loop, its metrics going to the folder too."""
    metrics = MetricsLog(folder.metrics, first_step=trainer.progress.step)
    try:
        with memory_told(prepared.device):
            return trainer.run((metrics, *observers))
    except NotFiniteError as error:
        first = prepared.example(error.numbers[0])
        raise TrainingError(
            f"{error}; it has {len(error.numbers)} examples, the first is {first!r}"
        ) from error
    finally:
        metrics.close()
