"""Training a recipe into a run folder."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from signal import SIGTERM
from typing import TYPE_CHECKING, Any

import torch

from regard import __version__
from regard.checkpoints.environment import note_start, plugin_changes
from regard.checkpoints.run_folder import (
    RunFolder,
    save_config,
    save_model,
    save_settings,
)
from regard.checkpoints.snapshots import DamagedSnapshotError, Snapshot, SnapshotStore
from regard.core.errors import ConfigError, TrainingError
from regard.core.files import telling, write_whole
from regard.core.numbers import counted
from regard.data.stream import Prefetched
from regard.evaluation.metrics import METRICS, score_title
from regard.models.presets import n_parameters
from regard.runs.claims import LIMITS, Claim
from regard.runs.estimate import Estimate, estimate
from regard.runs.film import Film
from regard.runs.prepare import prepare
from regard.runs.progress import told_if_slow
from regard.tasks.base import TASKS, Evaluation, Prepared
from regard.tasks.opening import device_name, memory_told, peak_memory, pick_device
from regard.tasks.recipe import Recipe
from regard.training.distributed import (
    Ranks,
    Stopped,
    check_processes,
    dividing,
    joined,
    own_device,
    stop_on_signals,
)
from regard.training.loop import Observer, Outcome, Setup, Trainer
from regard.training.metrics import MetricsLog, NotFiniteError
from regard.training.optimisers import freeze
from regard.training.trackers import IDS, Tracked, Tracking, check_installed
from regard.training.update import CapturedUpdate, Update

if TYPE_CHECKING:
    from regard.training.sharding import Shards

Say = Callable[[str], None]
SMOOTHING = "train.label_smoothing"
"""What a task heeds whose loss has it."""
FEW = 20
"""Fewer examples than this are a validation whose scores say little."""


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
    """Train, validate, score and report. None where ``resume`` finds nothing left to do.

    ``test_sets`` are scored at the end, all there are where none are named. ``say`` is told in
    words what happens, ``observers`` in numbers.
    """
    place, settings = own_device(pick_device(device)), recipe.train
    check_installed(settings.log)
    with (
        joined(place, alone_too=settings.parallel == "shard") as ranks,
        torch.random.fork_rng(devices=[place] if place.type == "cuda" else []),
        ExitStack() as held,
    ):
        ranks.check_alike({"regard": __version__, "torch": torch.__version__, **_flat(recipe)})
        if (note := check_processes(settings, ranks)) is not None:
            say(note)
        if settings.exact:
            held.enter_context(in_one_order(place))
        folder, claim = RunFolder(out), Claim(recipe, resume=resume, overwrite=overwrite)
        goes_on = ranks.by_writer(lambda: claim.make(folder, held))
        if ranks.by_writer(lambda: goes_on and _is_over(folder, claim, say)):
            claim.end()
            return None
        prepared, trainer, expected = _prepared(recipe, folder, place, ranks, goes_on, claim, say)
        outcome = _run(trainer, prepared, folder, observers, say)
        if outcome.signal is not None:
            return Trained(folder, outcome, {}, None)
        say(_kept(outcome, recipe))
        trained = _finished(prepared, folder, outcome, expected, test_sets, ranks)
        if trained.outcome.signal is None:
            claim.end()
        return trained


def _prepared(
    recipe: Recipe,
    folder: RunFolder,
    place: torch.device,
    ranks: Ranks,
    goes_on: bool,
    claim: Claim,
    say: Say,
) -> tuple[Prepared, Trainer, Estimate | None]:
    """Data, a training that has begun or goes on, and what it is expected to cost."""
    begun = goes_on and folder.settings.exists()
    snapshot = _latest(folder.checkpoints, say) if begun else None
    preparing = f"preparing {_data_named(recipe)}; this can take minutes"
    with told_if_slow(preparing, say), ranks.writer_first():
        begun_in = folder.path if snapshot else None
        prepared = prepare(recipe, place, begun=begun_in, cache=folder.path / "ids")
    for note in prepared.notes:
        say(note)
    if snapshot is None:  # at once: the first metrics can be minutes away
        for note in (*_few_held_out(prepared), _begins(prepared, folder)):
            say(note)
    # Compiling or recording twice would take longer than many a training: ``--dry-run`` tells what
    # it costs.
    several = ranks.n > 1 or recipe.train.parallel == "shard"
    costly = prepared.compiled or prepared.captured or several
    expected = None if costly else estimate(prepared)
    weights = prepared.model.parameters()
    seen = {  # on disks that should be the same
        "the step of the checkpoint": None if snapshot is None else snapshot.step,
        "the sum of all first weights": sum(one.double().sum().item() for one in weights),
    }
    trainer = _trainer(prepared, folder, ranks, say)
    ranks.check_alike({**seen, "the training data": trainer.setup.stream.state()["data"]})
    if snapshot is not None:
        trainer.restore(snapshot)
        say(f"resuming at step {snapshot.step}")
        for change in plugin_changes(folder):
            say(change)
        if ranks.is_writer and (told := claim.changed_rate(snapshot.step, prepared.config.d_model)):
            say(told)
        ranks.by_writer(lambda: claim.go_on(folder, prepared.recipe))
    else:
        if goes_on:
            say(f"nothing to resume in {folder.path}; starting at step 0")
        # Only now is nothing left that could go wrong.
        ranks.by_writer(lambda: _begin(prepared, folder))
    start = 0 if snapshot is None else snapshot.step
    here: dict[str, Any] = {"version": __version__, "device": place, "processes": ranks.n}
    ranks.by_writer(lambda: note_start(folder, step=start, **here))
    claim.begin()
    return prepared, trainer, expected


def _data_named(recipe: Recipe) -> str:
    """Which data a training prepares, whole, however few its steps are."""
    data = recipe.data
    if data.world is not None:
        return f"all data of the built-in world {data.world}"
    return f"all data of {data.folder or 'the files of the recipe'}"


def _begins(prepared: Prepared, folder: RunFolder) -> str:
    """What is about to be trained, where, and until when."""
    settings = prepared.recipe.train
    limits = {name: getattr(settings, name) for name in LIMITS}
    until = " or ".join(f"{name}={x:g}" for name, x in limits.items() if x is not None)
    n = n_parameters(prepared.model)
    return f"training {n:,} parameters into {folder.path}, until {until}"


def _few_held_out(prepared: Prepared) -> list[str]:
    """A warning, where what chooses the best weights is too little to do so well."""
    n = prepared.n_validated_on()
    if not 0 < n < FEW:
        return []
    remedy = "give more examples, or name a file of them as data.valid"
    return [f"valid has {counted(n, prepared.validated_on)}: its scores say little; {remedy}"]


def _kept(outcome: Outcome, recipe: Recipe) -> str:
    """Which of all the weights that were validated the run has, and why those."""
    step, asked = outcome.progress.best_step, recipe.train
    told = f"the weights of step {step:,} are kept: best validation {score_title(asked.criterion)}"
    smoothed = asked.label_smoothing > 0 and SMOOTHING in TASKS[recipe.task].heeds
    if asked.criterion != "loss" or not smoothed:
        return told
    return f"{told} (of all scores, only it has label smoothing {asked.label_smoothing:g} in it)"


def _is_over(folder: RunFolder, claim: Claim, say: Say) -> bool:
    """Whether a run is finished, and would be by the settings that are asked for now."""
    if not folder.finished():
        return False
    snapshot = _latest(folder.checkpoints, say) if claim.has_new_limits else None
    return claim.is_over(folder, snapshot)


def _latest(checkpoints: Path, say: Say) -> Snapshot | None:
    """The newest whole snapshot, be it one file or in parts."""
    plain = SnapshotStore(checkpoints)
    if any(one.is_dir() for one in checkpoints.glob("step-*")):
        from regard.checkpoints.sharded import complete_steps, read_snapshot

        steps = complete_steps(checkpoints)
        for step in [step for step in reversed(steps) if step > max(plain.steps(), default=-1)]:
            try:
                return read_snapshot(checkpoints, step)
            except DamagedSnapshotError as error:
                say(f"{error}; the newest before it that is whole is looked for")
    return plain.latest(say)


def _finished(
    prepared: Prepared,
    folder: RunFolder,
    outcome: Outcome,
    expected: Estimate | None,
    test_sets: Sequence[str] | None,
    ranks: Ranks,
) -> Trained:
    """The trained run, scored by all processes and reported by one."""
    began = time.perf_counter()
    try:
        with stop_on_signals() if ranks.n > 1 else nullcontext(), dividing():
            judged = prepared.judged(folder.path, test_sets)
    except Stopped:
        return Trained(folder, replace(outcome, signal=SIGTERM), {}, None)
    progress = outcome.progress
    facts = {  # of scores.json: scores, and cost as it was expected and as it came
        "scores": {name: one.scores for name, one in judged.evaluations.items()},
        "ended": outcome.reason,
        "estimate": None if expected is None else asdict(expected),
        "measured": {
            "parameters": n_parameters(prepared.model),
            "processes": ranks.n,
            "steps": progress.step,
            "tokens": progress.tokens,
            "flops": progress.flops,
            "seconds": progress.seconds,
            "ending_seconds": time.perf_counter() - began,
            "memory_bytes": peak_memory(prepared.device),
            "hardware": device_name(prepared.device),
            "best_step": progress.best_step,
        },
    }
    if ranks.is_writer:
        prepared.report(judged, facts)
        # Written last, the scores mark the run as finished.
        write_whole(folder.scores, json.dumps(facts, indent=2, ensure_ascii=False) + "\n")
    return Trained(folder, outcome, judged.evaluations, judged.run)


def _flat(recipe: Recipe) -> dict[str, Any]:
    """All settings by ``section.key``."""
    sections = recipe.model_dump(mode="json", exclude={"plugins"})
    return {
        f"{name}.{key}" if isinstance(section, dict) else name: value
        for name, section in sections.items()
        for key, value in (section.items() if isinstance(section, dict) else [("", section)])
    }


@contextmanager
def in_one_order(device: torch.device) -> Iterator[None]:
    """Inside the block torch adds up in the same order each time.

    Several threads would not, nor do the fastest kernels of a GPU. Torch has others of most.
    """
    before, on_gpu = torch.get_num_threads(), device.type == "cuda"
    torch.set_num_threads(1)
    if on_gpu:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True)
    try:
        yield
    except RuntimeError as error:
        if "deterministic implementation" not in str(error):
            raise
        reason = str(error).split(".")[0]
        raise ConfigError(f"train.exact=true: {reason}; leave it out, or take a CPU") from error
    finally:
        torch.set_num_threads(before)
        if on_gpu:
            torch.use_deterministic_algorithms(False)


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
        of_any = (folder.model_config, folder.weights, folder.metrics, folder.film, folder.report)
        (folder.path / IDS).unlink(missing_ok=True)
        for path in (folder.scores, folder.environment, *of_any, *of_tasks, folder.settings):
            path.unlink(missing_ok=True)
    save_settings(folder, prepared.recipe.model_dump(mode="json"))
    save_config(folder, prepared.config)
    prepared.save(folder.path)


def _trainer(prepared: Prepared, folder: RunFolder, ranks: Ranks, say: Say) -> Trainer:
    """A training that has not begun."""
    settings, captured = prepared.recipe.train, prepared.captured
    if captured and (ranks.n > 1 or settings.parallel == "shard"):
        captured = False
        say("updates are not recorded: several processes add up their gradients in between")
    whole = prepared.stream()
    if len(whole) < ranks.n:
        raise ConfigError(
            f"{ranks.n} processes are more than the {len(whole)} training examples; start fewer"
        )
    stream = whole.part(ranks.share(settings.accumulate))
    shards: Shards | None = None
    store: Any = SnapshotStore(folder.checkpoints, keep=settings.keep)
    if settings.parallel == "shard":
        from regard.checkpoints.sharded import ShardedStore
        from regard.training.sharding import Shards

        freeze(prepared.model, settings.freeze)
        shards = Shards(prepared.model, prepared.device, ranks.n)
        store = ShardedStore(folder.checkpoints, keep=settings.keep)
    film = Film(prepared, folder, say) if settings.film and ranks.is_writer else None
    setup = Setup(
        model=prepared.model,
        stream=Prefetched(stream, pin=prepared.device.type == "cuda"),
        objective=prepared.objective(),
        evaluate=prepared.validation(),
        flops=prepared.flops,
        store=store,
        keep_best=lambda weights: save_model(folder, prepared.config, weights),
        device=prepared.device,
        cost=METRICS[settings.criterion].cost,
        make_update=CapturedUpdate if captured else Update,
        shards=shards,
        ranks=ranks,
        watcher=film,
    )
    return Trainer(setup, settings)


def _run(
    trainer: Trainer, prepared: Prepared, folder: RunFolder, observers: Sequence[Observer], say: Say
) -> Outcome:
    """Run the loop, its metrics going to the folder and a tracker too."""
    step, recipe = trainer.progress.step, prepared.recipe
    with ExitStack() as held:
        heard: list[Observer] = []
        if trainer.setup.ranks.is_writer:
            heard = [MetricsLog(folder.metrics, first_step=step), *observers]
            tracking = Tracking(folder.path, step, _flat(recipe))
            tracker = Tracked(recipe.train.log, tracking, say)
            held.callback(tracker.close)
            heard.insert(1, tracker)
        return _observed(trainer, prepared, heard)


def _observed(trainer: Trainer, prepared: Prepared, observers: Sequence[Observer]) -> Outcome:
    """Run the loop; of a batch that led to no number, an example is told."""
    try:
        with memory_told(prepared.device):
            return trainer.run(observers)
    except NotFiniteError as error:
        if not error.numbers:  # those of the batch are with another process
            raise
        first = prepared.example(error.numbers[0])
        raise TrainingError(
            f"{error}; it has {len(error.numbers)} examples, the first is {first!r}"
        ) from error
