"""Work that takes a while, shown: a bar in a terminal or a notebook, plain lines otherwise."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from regard.evaluation.metrics import METRICS, score_text, score_title
from regard.tasks.verb import TOKEN, Unit
from regard.training.settings import TrainSettings
from regard.visual.svg import element

EVERY = 5.0
"""Seconds between two lines, at least, where there is no bar."""
SLOW = 2.0
"""Seconds after which it is said what somebody waits for."""
LATEST = 5
"""Lines that stay below the bar in a notebook."""
APART = 0.2
"""Seconds between two pictures of a bar in a notebook, at least."""


@contextmanager
def watching(settings: TrainSettings, unit: Unit = TOKEN) -> Iterator[Lines]:
    """An observer fit for whoever reads along; ``unit`` is what a training counts."""
    if in_notebook():
        with NotebookCell("training") as cell:
            yield NotebookBar(cell, settings, unit)
    elif sys.stderr.isatty():
        with Progress(
            TextColumn("step {task.fields[step]:,}"),
            BarColumn(),
            TextColumn("{task.fields[text]}"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        ) as progress:
            yield Bar(progress, settings, unit)
    else:
        yield Lines(unit, settings.criterion)


@contextmanager
def ticking(what: str) -> Iterator[Callable[[int, int], None]]:
    """Is told how much is done, and of how much; who cannot see a bar sees nothing."""
    if in_notebook():
        with NotebookCell(what) as cell:
            yield cell.move
        return
    hidden = not sys.stderr.isatty()
    with Progress(console=Console(stderr=True), transient=True, disable=hidden) as progress:
        bar = progress.add_task(what)
        yield lambda done, of: progress.update(bar, completed=done, total=of)


@contextmanager
def told_if_slow(text: str, say: Callable[[str], None]) -> Iterator[None]:
    """Inside the block work is done that may take long; if it does, what it is is said once.

    What fails at once says no more than why.
    """
    timer = threading.Timer(SLOW, say, [text])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def in_notebook() -> bool:
    """Whether cells of a notebook show what is displayed: a kernel runs this, not a terminal."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return getattr(shell, "kernel", None) is not None


class Lines:
    """A line a report, at most one in five seconds; validations always."""

    def __init__(self, unit: Unit, criterion: str = "loss") -> None:
        self._unit, self._criterion = unit, criterion
        self._last = float("-inf")

    def __call__(self, line: Mapping[str, Any]) -> None:
        """Print a line of metrics, unless one was printed just now."""
        now = time.monotonic()
        if line["kind"] == "valid" or now - self._last >= EVERY:
            self._last = now
            self.say(described(line, self._unit, self._criterion))

    def say(self, text: str) -> None:
        """Print on standard error."""
        print(text, file=sys.stderr, flush=True)


class Bar(Lines):
    """A bar that fills with steps, or with time where only that is limited."""

    def __init__(self, progress: Progress, settings: TrainSettings, unit: Unit = TOKEN) -> None:
        super().__init__(unit, settings.criterion)
        self._progress, self._settings = progress, settings
        total = ahead(settings)
        self._task = progress.add_task("", total=total, step=0, text="preparing")

    def __call__(self, line: Mapping[str, Any]) -> None:
        """Move the bar; validations also stay on the screen."""
        if line["kind"] == "valid":
            self.say(described(line, self._unit, self._criterion))
            return
        done, short = line[counted_by(self._settings)], _short(line, self._unit)
        self._progress.update(self._task, completed=done, step=line["step"], text=short)

    def say(self, text: str) -> None:
        """Print above the bar."""
        self._progress.console.print(text, highlight=False, markup=False)


class NotebookBar(Lines):
    """The same in a notebook's cell, above the latest validations."""

    def __init__(self, cell: NotebookCell, settings: TrainSettings, unit: Unit = TOKEN) -> None:
        super().__init__(unit, settings.criterion)
        self._cell, self._settings = cell, settings

    def __call__(self, line: Mapping[str, Any]) -> None:
        """Move the bar; validations are written below it."""
        if line["kind"] == "valid":
            self.say(described(line, self._unit, self._criterion))
            return
        done, total = line[counted_by(self._settings)], ahead(self._settings)
        self._cell.move(done, total, f"step {line['step']:,}  {_short(line, self._unit)}")

    def say(self, text: str) -> None:
        """Write below the bar."""
        self._cell.say(text)


class NotebookCell:
    """A bar and some lines in the output of a cell, drawn anew as they change."""

    def __init__(self, what: str) -> None:
        self.text = what
        self.done: float = 0.0
        self.total: float | None = None
        self.lines: list[str] = []
        self._drawn = float("-inf")
        display: Any = import_module("IPython.display")
        self._output = display.display(self, display_id=True)

    def move(self, done: float, total: float | None, text: str | None = None) -> None:
        """So much is done, of so much where that is known."""
        self.done, self.total, self.text = done, total, text or self.text
        if time.monotonic() - self._drawn >= APART:
            self._draw()

    def say(self, text: str) -> None:
        """One more line, in the place of the oldest where there are many."""
        self.lines = [*self.lines, text][-LATEST:]
        self._draw()

    def __enter__(self) -> NotebookCell:
        return self

    def __exit__(self, *_error: object) -> None:
        self._draw()

    def _draw(self) -> None:
        self._drawn = time.monotonic()
        self._output.update(self)

    def __repr__(self) -> str:
        return "\n".join([self.text, *self.lines])

    def _repr_html_(self) -> str:
        value = None if self.total is None else self.done
        bar = element("progress", value=value, max=self.total, style="width:20em")
        lines = (element("div", line) for line in self.lines)
        return element("div", element("div", bar, f" {self.text}"), *lines)


def counted_by(settings: TrainSettings) -> str:
    """What of a line of metrics tells how far a training is: ``step``, or ``seconds``."""
    by_steps = settings.max_steps is not None or settings.max_minutes is None
    return "step" if by_steps else "seconds"


def ahead(settings: TrainSettings) -> float | None:
    """Steps or seconds of the whole training; None where patience decides."""
    if counted_by(settings) == "step":
        return settings.max_steps
    return 60 * (settings.max_minutes or 0)


def described(line: Mapping[str, Any], unit: Unit, criterion: str = "loss") -> str:
    """A line of metrics in words; ``criterion`` is the score that says which step is best."""
    if line["kind"] == "valid":
        names = (name for name in METRICS if name in line and name != "loss")
        told = [f"{score_title(name)} {score_text(name, line[name])}" for name in names]
        scores = "  ".join([f"validation loss {line['loss']:.4f}", *told])
        best = f"  best {score_title(criterion)}" if line["best"] else ""
        return f"step {line['step']:,}  {scores}{best}"
    short = _short(line, unit)
    return f"step {line['step']:,}  {short}  lr {line['lr']:.2e}  {line['seconds']:.0f} s"


def _short(line: Mapping[str, Any], unit: Unit) -> str:
    return f"loss {line['loss']:.4f}  {line['tokens_per_second']:,.0f} {unit.many}/s"
