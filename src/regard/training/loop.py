"""The training loop: one, for every model and task.

It is given what it needs (a stream of batches, an objective, an evaluator, a place for snapshots)
and knows nothing of what they are. Everything that changes while it runs is in the weights and
buffers, the optimiser, the running average and ``Progress``; a snapshot holds all four, so that a
resumed run is the run that was never stopped, bit for bit. What is drawn at random depends on the
seed, the step and the number of the micro-batch alone, whichever process learns from it.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from signal import Signals
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn

from regard.checkpoints.run_folder import fill, model_tensors
from regard.checkpoints.snapshots import Snapshot, check_facts, taking_up
from regard.core.errors import ConfigError, RegardError, TrainingError
from regard.data.batch import Batch
from regard.data.stream import Prefetched, Stream
from regard.models.settings import ModelConfig
from regard.training.distributed import (
    Ranks,
    Stopped,
    StopRequest,
    dividing,
    micro_batch_seed,
    stop_on_signals,
)
from regard.training.losses import Objective
from regard.training.metrics import StepMeter
from regard.training.optimisers import load_optimisers, optimiser_tensors
from regard.training.settings import TrainSettings
from regard.training.update import RunningAverage, Update, UpdateResult

if TYPE_CHECKING:
    from regard.training.sharding import Shards

Evaluator = Callable[[Any], Mapping[str, float]]
"""Scores of a model on held-out data; at least ``loss``."""
Observer = Callable[[Mapping[str, Any]], None]
"""Is called with every line of metrics."""
Watcher = Callable[[int, nn.Module], None]
"""Is shown a step and the model as it is validated then, which it must leave as it is."""


@dataclass(slots=True)
class Progress:
    """How far a training is."""

    step: int = 0
    tokens: int = 0
    """Target tokens learned from, padding not counted."""
    flops: float = 0.0
    seconds: float = 0.0
    best: float | None = None
    """The best validation score; lower is better."""
    best_step: int | None = None
    last_eval: int = 0
    stale: int = 0
    """Validations since the best."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a training ended."""

    progress: Progress
    reason: str
    signal: Signals | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What a training is given."""

    model: nn.Module
    """Its ``config`` is a ``ModelConfig``."""
    stream: Stream | Prefetched
    objective: Objective
    evaluate: Evaluator
    flops: Callable[[Any], float]
    store: Any
    """A ``SnapshotStore``, or what has its ``save`` and ``wait``."""
    keep_best: Callable[[dict[str, Tensor]], None]
    """Is handed the weights whenever they are the best so far."""
    device: torch.device
    cost: Callable[[float], float] = float
    """The criterion's value -> what is to become low: another sign where higher is better."""
    make_update: type[Update] = Update
    shards: Shards | None = None
    """Where each process holds a part of the model."""
    ranks: Ranks = field(default_factory=Ranks)
    watcher: Watcher | None = None
    """Sees the model before the first step and after each validation; of several processes, the
    writer has one."""


def limit_reached(settings: TrainSettings, progress: Progress) -> str | None:
    """Why a training that has come so far ends, if it does."""
    if settings.max_steps is not None and progress.step >= settings.max_steps:
        return f"reached max_steps={settings.max_steps}"
    if settings.max_minutes is not None and progress.seconds >= 60 * settings.max_minutes:
        return f"reached max_minutes={settings.max_minutes:g}"
    if settings.patience is not None and progress.stale >= settings.patience:
        return f"no better for {progress.stale} validations"
    return None


class Trainer:
    """Runs a training from its beginning or from a snapshot to its end."""

    def __init__(self, setup: Setup, settings: TrainSettings) -> None:
        self.setup, self.settings = setup, settings
        self.model = setup.model
        self.progress = Progress()
        self.update = setup.make_update(
            self.model, setup.objective, settings, setup.device, setup.ranks
        )
        self.average = RunningAverage(self.model, settings.average) if settings.average else None
        learned = {*dict(self.model.named_parameters())}
        tensors = model_tensors(self.model)
        self._buffers = {name: x for name, x in tensors.items() if name not in learned}
        self._unchecked = settings.exact and setup.ranks.n > 1
        self._meter = StepMeter()
        self._saved: tuple[int, int] | None = None
        self._clock = 0.0
        self._stopped_by: Signals | None = None
        self._observers: Sequence[Observer] = ()

    # ---------------------------------------------------------------- the loop

    def run(self, observers: Sequence[Observer] = ()) -> Outcome:
        """Train until a limit is reached or somebody asks to stop; observers hear of it."""
        self._observers = observers
        self.model.train()
        self._meter = StepMeter()
        self._clock = time.perf_counter() - self.progress.seconds
        reason: str | None = None
        with stop_on_signals() as request, self._writing_to_the_end():
            with suppress(Stopped):
                if self.settings.film and self.progress.step == 0:
                    with self._as_validated() as model:
                        self._show(model)
                if self._validation_is_due:
                    self._evaluate()  # was cut short by a signal
                while (reason := self._agreed_reason(request)) is None:
                    self._step()
                if self._stopped_by is None and self.progress.last_eval != self.progress.step:
                    self._evaluate()
            # A signal may have come in the middle of a validation, or to another process.
            reason = self._agreed_reason(request) or reason
            if self._stopped_by is not None and self.progress.best is None:
                self._keep()  # nothing was validated yet, and what was learned is to be used
            self._save()
        assert reason is not None
        return Outcome(self.progress, reason, self._stopped_by)

    @contextmanager
    def _writing_to_the_end(self) -> Iterator[None]:
        """After the block the last snapshot is whole: where training failed, it is resumed from."""
        try:
            yield
        except Exception as error:
            try:
                self.setup.store.wait()
            except (OSError, RegardError) as also:
                error.add_note(str(also))
            raise
        self.setup.store.wait()

    @property
    def _validation_is_due(self) -> bool:
        step = self.progress.step
        due = step > 0 and step % self.settings.eval_every == 0
        return due and self.progress.last_eval != step

    def _agreed_reason(self, request: StopRequest) -> str | None:
        """Why all processes stop now, if they do; a signal to one of them stops all."""
        reason = self._limit_reached()
        # A signal that comes while the others are asked is told the next time.
        number, stop = self.setup.ranks.largest(int(request.signal or 0), reason is not None)
        if number:
            self._stopped_by = Signals(number)
            return f"stopped by {self._stopped_by.name}"
        return (reason or "another process stopped") if stop else None

    def _limit_reached(self) -> str | None:
        self._tick()
        return limit_reached(self.settings, self.progress)

    def _step(self) -> None:
        progress, settings = self.progress, self.settings
        share = self.setup.ranks.share(settings.accumulate)
        numbers = range(share.first, share.first + share.n)
        batches = [(self.setup.stream.next(), number) for number in numbers]
        self.setup.objective.begin_update(progress.step)
        progress.step += 1
        seed = partial(micro_batch_seed, settings.seed, progress.step)
        full = [(batch, seed(number, share.part)) for batch, number in batches if batch.numbers]
        self._learn([batch for batch, _ in full], [one for _, one in full])
        if progress.step % settings.log_every == 0:
            self._log()
        if progress.step % settings.eval_every == 0:
            self._evaluate()
        if progress.step % settings.save_every == 0:
            self._save()

    def _learn(self, batches: Sequence[Batch], seeds: Sequence[int]) -> None:
        """One update, and all that goes with it."""

        def note(result: UpdateResult) -> None:
            self.progress.tokens += result.n_tokens
            self._meter.add(self.progress.step, batches, result)
            if self.setup.device.type == "cpu":
                self._meter.read()  # reading a number costs nothing; a GPU would have to wait

        ranks = self.setup.ranks
        with self._remembering_nothing() if self._unchecked else nullcontext():
            self.update(batches, self._lr(), note, seeds)
        ranks.copy_buffers(self._buffers.values())
        if self.average is not None:
            self.average.update(self.model)
        self.progress.flops += ranks.add([sum(self.setup.flops(batch) for batch in batches)])[0]

    @contextmanager
    def _remembering_nothing(self) -> Iterator[None]:
        """Refuse ``train.exact`` where what a process learned from leaves traces in it alone."""
        buffers = {name: buffer.clone() for name, buffer in self._buffers.items()}
        state = self.setup.objective.state()
        yield
        changed = [name for name, was in buffers.items() if not self._buffers[name].equal(was)]
        if self.setup.objective.state() != state:
            changed.append("the baseline of rewards")
        if changed:
            raise ConfigError(
                f"train.exact=true: {changed[0]} follows the batches of each process, which is not "
                "added up; leave train.exact out, or train with one process"
            )
        self._unchecked = False

    def _tick(self) -> None:
        """Seconds since the training began, what was not training left out."""
        self.progress.seconds = time.perf_counter() - self._clock

    def _lr(self) -> float:
        config = cast("ModelConfig", self.model.config)
        return self.settings.rate_at(self.progress.step, config.d_model)

    # ---------------------------------------------------------------- reporting

    def _log(self) -> None:
        summary = self._meter.summary(self.setup.ranks)
        self._meter = StepMeter()
        self._report(kind="train", lr=self._lr(), **summary)

    def _report(self, **facts: Any) -> None:
        self._tick()
        progress = self.progress
        line = {
            "step": progress.step,
            **facts,
            "tokens": progress.tokens,
            "flops": progress.flops,
            "seconds": round(progress.seconds, 3),
        }
        for observer in self._observers if self.setup.ranks.is_writer else ():
            observer(line)

    # ---------------------------------------------------------------- validating

    def _evaluate(self) -> None:
        progress = self.progress
        self._meter.read()
        with self._as_validated() as model:
            scores = self._scores(model)
            self._show(model)
        progress.last_eval = progress.step
        criterion = self.settings.criterion
        if criterion not in scores:
            raise TrainingError(f"the validation has no {criterion}; it has {', '.join(scores)}")
        value = self.setup.cost(scores[criterion])
        if not math.isfinite(value):
            raise TrainingError(
                f"the validation's {criterion} became {value} at step "
                f"{progress.step}; nothing of it was saved: lower train.lr, and start again or "
                "from the last checkpoint"
            )
        improved = progress.best is None or value < progress.best
        if improved:
            progress.best, progress.best_step, progress.stale = value, progress.step, 0
        else:
            progress.stale += 1
        self._report(kind="valid", **scores, best=improved)
        if improved:
            self._hand_over()
            self._save()
        self._meter.restart_clock()

    def _keep(self) -> None:
        """Hand over the weights as they would be validated."""
        with self._as_validated():
            self._hand_over()

    def _hand_over(self) -> None:
        weights = self._weights()
        if self.setup.ranks.is_writer:
            self.setup.keep_best(weights)

    @contextmanager
    def _as_validated(self) -> Iterator[nn.Module]:
        """The model with the averaged weights, if there are any, and in one piece."""
        if self.setup.shards is not None:
            yield self.setup.shards.gathered(self._learned())
            return
        with self.average.in_place_of(self.model) if self.average else nullcontext():
            yield self.model

    def _scores(self, model: nn.Module) -> Mapping[str, float]:
        model.eval()
        try:
            with dividing():
                return self.setup.evaluate(model)
        finally:
            model.train()

    def _show(self, model: nn.Module) -> None:
        if self.setup.watcher is not None:
            self.setup.watcher(self.progress.step, model)

    def _learned(self) -> dict[str, Tensor]:
        averaged = self.average.weights if self.average is not None else {}
        return {**model_tensors(self.model), **averaged}

    def _weights(self) -> dict[str, Tensor]:
        """What was just validated."""
        shards = self.setup.shards
        return self._learned() if shards is None else model_tensors(shards.plain)

    # ---------------------------------------------------------------- saving

    def _save(self) -> None:
        self._meter.read()
        self._tick()
        now = (self.progress.step, self.progress.last_eval)
        saves = self.setup.ranks.is_writer or self.setup.shards is not None
        if self._saved == now or not saves:
            return
        snapshot = Snapshot(
            self.progress.step,
            {
                **_named("model/", model_tensors(self.model)),
                **_named("optimiser/", optimiser_tensors(self.update.optimisers, self.model)),
                **_named("average/", self.average.weights if self.average else {}),
            },
            self._facts(),
        )
        self.setup.store.save(snapshot, best_step=self.progress.best_step)
        self._saved = now

    def _facts(self) -> dict[str, Any]:
        """Of a snapshot."""
        return {
            "progress": dataclasses.asdict(self.progress),
            "stream": self.setup.stream.state(),
            "objective": self.setup.objective.state(),
            "averaged": self.average.n_updates if self.average else 0,
        }

    def restore(self, snapshot: Snapshot) -> None:
        """Become the training that a snapshot was taken of."""
        facts = snapshot.facts
        with taking_up(snapshot):
            check_facts(facts, self._facts())
            self.setup.stream.restore(place := facts["stream"])  # refuses other data first
            if place["position"] and place["position"] >= self.setup.stream.n_batches:
                raise ValueError(f"no epoch has a batch of number {place['position']}")
            self.setup.objective.restore(facts["objective"])
            self._take_up_tensors(snapshot)
            self.progress = Progress(**{**facts["progress"], "step": snapshot.step})
            self._saved = (self.progress.step, self.progress.last_eval)

    def _take_up_tensors(self, snapshot: Snapshot) -> None:
        """Weights, what the optimiser keeps, and averages; of a model in parts, this one's."""
        shards, weights = self.setup.shards, snapshot.part("model/")
        whole = self.model if shards is None else shards.plain
        fill(whole, weights, f"the checkpoint of step {snapshot.step}")
        averaged = snapshot.part("average/") if self.average is not None else {}
        part_like = None if shards is None else shards.part_like
        if part_like is not None:
            for name, tensor in model_tensors(self.model).items():
                tensor.copy_(part_like(tensor, weights[name]))
            kept = {} if self.average is None else self.average.weights
            averaged = {name: part_like(kept[name], x) for name, x in averaged.items()}
        slots = snapshot.part("optimiser/")
        load_optimisers(self.update.optimisers, self.model, slots, part_like)
        if self.average is not None:
            self.average.restore(averaged, snapshot.facts["averaged"])


def _named(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {prefix + name: tensor for name, tensor in tensors.items()}
