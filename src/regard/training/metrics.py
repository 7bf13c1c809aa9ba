"""Metrics on disk: a JSON line a report, and TensorBoard events beside it."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter

from regard.core.files import telling, write_whole


class MetricsLog:
    """An observer of the training loop that writes ``metrics.jsonl`` and TensorBoard events."""

    def __init__(self, path: Path, *, first_step: int) -> None:
        """Go on after ``first_step``: lines of a run that was killed later are dropped."""
        kept = [line for line in read_metrics(path) if line["step"] <= first_step]
        write_whole(path, "".join(json.dumps(line) + "\n" for line in kept))
        self._path = path
        self._events = EventFile(path.parent / "tensorboard", first_step=first_step)

    def __call__(self, line: Mapping[str, Any]) -> None:
        """Take in one report."""
        with telling(self._path), self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        numbers = {
            f"{line['kind']}/{name}": value
            for name, value in line.items()
            if isinstance(value, int | float) and name != "step"
        }
        self._events.write(line["step"], numbers)

    def close(self) -> None:
        """Flush and close."""
        self._events.close()


class EventFile:
    """Scalars in TensorBoard's format.

    Torch's own writer does this in a thread, whose errors, such as a full disk, nobody can catch.
    """

    def __init__(self, folder: Path, *, first_step: int) -> None:
        self._path = folder / f"events.out.tfevents.{time.time_ns()}.regard"
        with telling(self._path):
            folder.mkdir(parents=True, exist_ok=True)
            self._file = self._path.open("wb")
        self._writer = RecordWriter(self._file)
        self._put(Event(wall_time=time.time(), file_version="brain.Event:2"))
        # Tells the reader to forget what a killed run wrote about the steps that come again.
        start = SessionLog(status=SessionLog.START)
        self._put(Event(wall_time=time.time(), step=first_step + 1, session_log=start))

    def write(self, step: int, numbers: Mapping[str, float]) -> None:
        """One point of several curves."""
        values = [Summary.Value(tag=tag, simple_value=value) for tag, value in numbers.items()]
        self._put(Event(wall_time=time.time(), step=step, summary=Summary(value=values)))

    def close(self) -> None:
        """Close the file; what could not be written was told before."""
        try:
            self._file.close()
        except OSError:  # the rest of a write that has already failed
            return

    def _put(self, event: Event) -> None:
        with telling(self._path):
            self._writer.write(event.SerializeToString())
            self._file.flush()


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """All whole lines of a metrics file; a line cut short by a kill is left out."""
    if not path.exists():
        return []
    lines = []
    for text in path.read_text(encoding="utf-8").split("\n"):
        try:
            line = json.loads(text)
        except json.JSONDecodeError:
            continue
        if isinstance(line, dict) and math.isfinite(line.get("step", math.nan)):
            lines.append(line)
    return lines
