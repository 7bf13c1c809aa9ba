"""Training, shown: a bar when a person watches, plain lines otherwise."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from regard.evaluation.metrics import METRICS, score_text, score_title
from regard.tasks.verb import TOKEN, Unit
from regard.training.settings import TrainSettings


@contextmanager
def watching(settings: TrainSettings, unit: Unit = TOKEN) -> Iterator[Lines]:
    """An observer fit for whoever reads standard error; ``unit`` is what a training counts."""
    if not sys.stderr.isatty():
        yield Lines(unit)
        return
    with Progress(
        TextColumn("step {task.fields[step]:,}"),
        BarColumn(),
        TextColumn("{task.fields[text]}"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    ) as progress:
        yield Bar(progress, settings, unit)


class Lines:
    """A line a report, at most one in five seconds; validations always."""

    def __init__(self, unit: Unit) -> None:
        self._unit = unit
        self._last = float("-inf")

    def __call__(self, line: Mapping[str, Any]) -> None:
        """Print a line of metrics, unless one was printed just now."""
        now = time.monotonic()
        if line["kind"] == "valid" or now - self._last >= 5:
            self._last = now
            self.say(described(line, self._unit))

    def say(self, text: str) -> None:
        """Print on standard error."""
        print(text, file=sys.stderr, flush=True)


class Bar(Lines):
    """A bar that fills with steps, or with time where only that is limited."""

    def __init__(self, progress: Progress, settings: TrainSettings, unit: Unit = TOKEN) -> None:
        super().__init__(unit)
        self._progress = progress
        self._by_steps = settings.max_steps is not None or settings.max_minutes is None
        total = settings.max_steps if self._by_steps else 60 * (settings.max_minutes or 0)
        self._task = progress.add_task("", total=total, step=0, text="preparing")

    def __call__(self, line: Mapping[str, Any]) -> None:
        """Move the bar; validations also stay on the screen."""
        if line["kind"] == "valid":
            self.say(described(line, self._unit))
            return
        done = line["step"] if self._by_steps else line["seconds"]
        short = _short(line, self._unit)
        self._progress.update(self._task, completed=done, step=line["step"], text=short)

    def say(self, text: str) -> None:
        """Print above the bar."""
        self._progress.console.print(text, highlight=False, markup=False)


def described(line: Mapping[str, Any], unit: Unit) -> str:
    """A line of metrics in words."""
    if line["kind"] == "valid":
        names = (name for name in METRICS if name in line and name != "loss")
        told = [f"{score_title(name)} {score_text(name, line[name])}" for name in names]
        scores = "  ".join([f"validation loss {line['loss']:.4f}", *told])
        return f"step {line['step']:,}  {scores}{'  best' if line['best'] else ''}"
    short = _short(line, unit)
    return f"step {line['step']:,}  {short}  lr {line['lr']:.2e}  {line['seconds']:.0f} s"


def _short(line: Mapping[str, Any], unit: Unit) -> str:
    return f"loss {line['loss']:.4f}  {line['tokens_per_second']:,.0f} {unit.many}/s"
