"""Metrics of a training: summed up over steps, and written as JSON lines."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.core.errors import TrainingError
from regard.core.files import parse_json, read_text, telling, write_whole
from regard.data.batch import Batch
from regard.training.distributed import Ranks
from regard.training.update import UpdateResult


class _UnreadStep(NamedTuple):
    """A step whose numbers are still on the device."""

    step: int
    batches: Sequence[Batch]
    total: Tensor
    result: UpdateResult


class NotFiniteError(TrainingError):
    """A number that must be finite is not; ``numbers`` are the examples of its batch."""

    def __init__(self, what: str, value: float, one: _UnreadStep) -> None:
        self.numbers = [number for batch in one.batches for number in batch.numbers]
        super().__init__(
            f"the {what} became {value} at step {one.step}; nothing of it was saved: lower "
            "train.lr, or look at the batch, and start again or from the last checkpoint"
        )


class StepMeter:
    """Sums up steps. Numbers are read late, so that a GPU need not wait for each."""

    def __init__(self) -> None:
        self._loss = self._grad_norm = 0.0
        self._n_tokens = self._n_steps = 0
        self._sums: dict[str, float] = {}
        self._counts: dict[str, int] = {}
        self._unread: list[_UnreadStep] = []
        self.restart_clock()

    def restart_clock(self) -> None:
        """Leave out of the speed what was no training."""
        self._began = time.perf_counter()
        self._clock_tokens = 0

    def add(self, step: int, batches: Sequence[Batch], result: UpdateResult) -> None:
        """Note a step."""
        self._unread.append(_UnreadStep(step, batches, result.losses.total, result))
        self._clock_tokens += result.n_tokens

    def read(self) -> None:
        """Read the numbers of the steps so far; what is not finite ends the training."""
        if self._unread:
            synchronize_blocking(self._unread[-1].total)
        for one in self._unread:
            loss, grad_norm = one.total.item(), one.result.norm.item()
            if not math.isfinite(loss):
                raise NotFiniteError("loss", loss, one)
            if not math.isfinite(grad_norm):
                raise NotFiniteError("gradient", grad_norm, one)
            self._loss += loss
            self._grad_norm += grad_norm
            self._n_tokens += one.result.n_tokens
            self._n_steps += 1
            losses = one.result.losses
            for name, value in losses.sums.items() if len(losses.sums) > 1 else ():
                self._sums[name] = self._sums.get(name, 0.0) + value.item()
                self._counts[name] = self._counts.get(name, 0) + losses.counts[name]
        self._unread.clear()

    def summary(self, ranks: Ranks) -> dict[str, float]:
        """The steps so far, of all processes: the loss a target token, the norm before clipping.

        Where there are several losses, each over its own count as well.
        """
        self.read()
        seconds = time.perf_counter() - self._began
        losses, *parts = zip(*ranks.gather((self._loss, self._sums, self._counts)), strict=True)
        sums, counts = map(_added, parts)
        return {
            "loss": sum(losses) / max(1, self._n_tokens),
            "grad_norm": self._grad_norm / max(1, self._n_steps),
            "tokens_per_second": self._clock_tokens / seconds,
            **{f"loss_{name}": total / max(1, counts[name]) for name, total in sums.items()},
        }


def synchronize_blocking(x: Tensor) -> None:
    """Wait until a GPU has computed x. Who asks for the number itself keeps a core busy with
    asking, which trainings beside this one may need.
    """
    if x.is_cuda:
        reached = torch.cuda.Event(blocking=True)
        reached.record(torch.cuda.current_stream(x.device))
        reached.synchronize()


def _added(parts: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Numbers of the same name, added up."""
    total: dict[str, float] = {}
    for part in parts:
        for name, value in part.items():
            total[name] = total.get(name, 0) + value
    return total


class MetricsLog:
    """An observer of the training loop that writes ``metrics.jsonl``."""

    def __init__(self, path: Path, *, first_step: int) -> None:
        """Go on after ``first_step``: lines of a run that was killed later are dropped."""
        kept = [line for line in read_metrics(path) if line["step"] <= first_step]
        write_whole(path, "".join(json.dumps(line) + "\n" for line in kept))
        self._path = path

    def __call__(self, line: Mapping[str, Any]) -> None:
        """Take in one report."""
        with telling(self._path), self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """All whole lines of a metrics file; a line cut short by a kill is left out."""
    if not path.exists():
        return []
    lines = []
    for text in read_text(path).split("\n"):
        try:
            line = parse_json(text)
        except ValueError:
            continue
        said = line if isinstance(line, dict) else {}
        if type(said.get("step")) is int and isinstance(said.get("kind"), str):
            lines.append(said)
    return lines
