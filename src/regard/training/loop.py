"""The training loop: one, for every model and task.

It is given what it needs (a stream of batches, an objective, an evaluator, a place for snapshots)
and knows nothing of what they are. Everything that changes while it runs is in the weights, the
optimiser, the running average, torch's generators and ``Progress``; a snapshot holds all five, so
that a resumed run is the run that was never stopped, bit for bit.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from signal import Signals
from typing import Any, Protocol, cast

import torch
from torch import Tensor, nn

from regard.checkpoints.run_folder import fill
from regard.checkpoints.snapshots import Snapshot
from regard.core.errors import TrainingError
from regard.models.base import ModelConfig
from regard.training.average import RunningAverage
from regard.training.schedules import highest, share
from regard.training.settings import TrainSettings
from regard.training.signals import Wish, stop_wish
from regard.training.state import load_optimiser, load_rng, optimiser_tensors, rng_tensors
from regard.training.tally import Tally
from regard.training.update import AnyBatch, LossOf, Update, Updated

Evaluator = Callable[[Any], Mapping[str, float]]
"""Scores of a model on held-out data; at least ``loss``."""
Observer = Callable[[Mapping[str, Any]], None]
"""Is told of every line of metrics."""


class Objective(LossOf, Protocol):
    """What is made small. It may remember things between batches."""

    def state(self) -> dict[str, Any]:
        """What it remembers, as JSON."""
        ...

    def restore(self, state: Mapping[str, Any]) -> None:
        """Remember it again."""
        ...


class Stream(Protocol):
    """Endless batches whose place can be noted and found again."""

    def next(self) -> AnyBatch:
        """The next batch."""
        ...

    def state(self) -> dict[str, Any]:
        """The place, as JSON."""
        ...

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go to a place."""
        ...


class Store(Protocol):
    """A place for snapshots."""

    def save(self, snapshot: Snapshot, *, best_step: int | None) -> object:
        """Keep one."""
        ...


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
    stream: Stream
    objective: Objective
    evaluate: Evaluator
    flops: Callable[[Any], float]
    store: Store
    keep_best: Callable[[dict[str, Tensor]], None]
    """Is handed the weights whenever they are the best so far."""
    device: torch.device
    make_update: Callable[[nn.Module, LossOf, TrainSettings, torch.device], Update] = Update


class Trainer:
    """Runs a training from its beginning or from a snapshot to its end."""

    def __init__(self, setup: Setup, settings: TrainSettings) -> None:
        self.setup, self.settings = setup, settings
        self.model = setup.model
        self.progress = Progress()
        self.update = setup.make_update(self.model, setup.objective, settings, setup.device)
        self.average = RunningAverage(self.model, settings.average) if settings.average else None
        self._tally = Tally()
        self._saved: tuple[int, int] | None = None
        self._clock = 0.0
        self._observers: Sequence[Observer] = ()

    # ---------------------------------------------------------------- the loop

    def run(self, observers: Sequence[Observer] = ()) -> Outcome:
        """Train until a limit is reached or somebody asks to stop; observers hear of it."""
        self._observers = observers
        self.model.train()
        self._tally = Tally()
        self._clock = time.perf_counter() - self.progress.seconds
        with stop_wish() as wish:
            while (reason := self._why_stop(wish)) is None:
                self._step()
            if wish.signal is None and self.progress.last_eval != self.progress.step:
                self._evaluate()
            self._save()
        return Outcome(self.progress, reason, wish.signal)

    def _why_stop(self, wish: Wish) -> str | None:
        self._tick()
        progress, settings = self.progress, self.settings
        if wish.signal is not None:
            return f"stopped by {wish.signal.name}"
        if settings.max_steps is not None and progress.step >= settings.max_steps:
            return f"reached max_steps={settings.max_steps}"
        if settings.max_minutes is not None and progress.seconds >= 60 * settings.max_minutes:
            return f"reached max_minutes={settings.max_minutes:g}"
        if settings.patience is not None and progress.stale >= settings.patience:
            return f"no better for {progress.stale} validations"
        return None

    def _step(self) -> None:
        progress, settings = self.progress, self.settings
        batches = [self.setup.stream.next() for _ in range(settings.accumulate)]
        progress.step += 1
        self._learn(batches)
        if progress.step % settings.log_every == 0:
            self._log()
        if progress.step % settings.eval_every == 0:
            self._evaluate()
        if progress.step % settings.save_every == 0:
            self._save()

    def _learn(self, batches: Sequence[AnyBatch]) -> None:
        """One update, and all that goes with it."""
        n_tokens = sum(batch.n_target_tokens for batch in batches)

        def note(updated: Updated) -> None:
            self._tally.add(self.progress.step, batches, updated.loss, n_tokens, updated.norm)
            if self.setup.device.type == "cpu":
                self._tally.settle()  # reading a number costs nothing; a GPU would have to wait

        self.update(batches, self._lr(), note)
        if self.average is not None:
            self.average.update(self.model)
        self.progress.tokens += n_tokens
        self.progress.flops += sum(self.setup.flops(batch) for batch in batches)

    def _tick(self) -> None:
        """Seconds since the training began, what was not training left out."""
        self.progress.seconds = time.perf_counter() - self._clock

    def _lr(self) -> float:
        config = cast("ModelConfig", self.model.config)
        height = highest(self.settings, config.d_model)
        return height * share(self.progress.step, self.settings)

    # ---------------------------------------------------------------- telling

    def _log(self) -> None:
        summary = self._tally.summary()
        self._tally = Tally()
        self._tell(kind="train", lr=self._lr(), **summary._asdict())

    def _tell(self, **facts: Any) -> None:
        self._tick()
        progress = self.progress
        line = {
            "step": progress.step,
            **facts,
            "tokens": progress.tokens,
            "flops": progress.flops,
            "seconds": round(progress.seconds, 3),
        }
        for observer in self._observers:
            observer(line)

    # ---------------------------------------------------------------- validating

    def _evaluate(self) -> None:
        progress = self.progress
        self._tally.settle()
        if self.average is None:
            scores = self._scores()
        else:
            with self.average.in_place_of(self.model):
                scores = self._scores()
        progress.last_eval = progress.step
        criterion = self.settings.criterion
        value = scores["loss"] if criterion == "loss" else -scores[criterion]
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
        self._tell(kind="valid", **scores, best=improved)
        if improved:
            self.setup.keep_best(self._weights())
            self._save()
        self._tally.restart_clock()

    def _scores(self) -> Mapping[str, float]:
        """The evaluator may draw random numbers; training must not notice."""
        rng = rng_tensors(self.setup.device)
        self.model.eval()
        scores = self.setup.evaluate(self.model)
        self.model.train()
        load_rng(rng, self.setup.device)
        return scores

    def _weights(self) -> dict[str, Tensor]:
        if self.average is not None:
            return self.average.weights
        return {name: p.detach() for name, p in self.model.named_parameters()}

    # ---------------------------------------------------------------- saving

    def _save(self) -> None:
        self._tally.settle()
        self._tick()
        now = (self.progress.step, self.progress.last_eval)
        if self._saved == now:
            return
        snapshot = Snapshot(
            self.progress.step,
            {
                **_named("model/", {n: p.detach() for n, p in self.model.named_parameters()}),
                **_named("adam/", optimiser_tensors(self.update.optimiser, self.model)),
                **_named("average/", self.average.weights if self.average else {}),
                **_named("rng/", rng_tensors(self.setup.device)),
            },
            {
                "progress": dataclasses.asdict(self.progress),
                "stream": self.setup.stream.state(),
                "objective": self.setup.objective.state(),
                "averaged": self.average.n_updates if self.average else 0,
            },
        )
        self.setup.store.save(snapshot, best_step=self.progress.best_step)
        self._saved = now

    def restore(self, snapshot: Snapshot) -> None:
        """Become the training that a snapshot was taken of."""
        self.setup.stream.restore(snapshot.facts["stream"])  # refuses other data first
        self.setup.objective.restore(snapshot.facts["objective"])
        fill(self.model, snapshot.part("model/"), f"the checkpoint of step {snapshot.step}")
        load_optimiser(self.update.optimiser, self.model, snapshot.part("adam/"))
        if self.average is not None:
            self.average.restore(snapshot.part("average/"), snapshot.facts["averaged"])
        self.progress = Progress(**snapshot.facts["progress"])
        self._saved = (self.progress.step, self.progress.last_eval)
        load_rng(snapshot.part("rng/"), self.setup.device)


def _named(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {prefix + name: tensor for name, tensor in tensors.items()}
