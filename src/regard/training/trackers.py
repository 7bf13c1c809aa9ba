"""Where a training's metrics go beside ``metrics.jsonl``: an entry each, chosen by ``train.log``.

A tracker is called with every line of metrics. Those of other programs (Weights & Biases, MLflow)
are told where to write by their own environment variables; ``WANDB_MODE=offline`` and
``MLFLOW_TRACKING_URI=sqlite:///mlflow.db`` need no network. What they raise while training does not
end it. Nothing here imports torch, nor a tracker's library before it is used.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from regard.core.errors import CheckpointError, ConfigError, RegardError
from regard.core.files import read_json, telling, write_whole
from regard.core.numbers import told
from regard.core.registry import Registry

IDS = "tracking.json"
"""Of a run folder: what a tracker calls the run, so that a training that goes on is one there."""
PROJECT = "regard"
"""What runs are filed under, where the tracker's own settings do not say."""

Line = Mapping[str, Any]
"""A line of ``metrics.jsonl``."""


class Tracker(Protocol):
    """Takes in a training's metrics."""

    def __call__(self, line: Line) -> None:
        """Take in one report."""

    def close(self) -> None:
        """Write what is left to be written; what could not be was told before."""


@dataclass(frozen=True, slots=True)
class Tracking:
    """A training that is to be followed."""

    folder: Path
    """Of the run."""
    first_step: int
    """The step after which it goes on."""
    settings: Mapping[str, Any]
    """All settings by ``section.key``; plain data."""

    def run_id(self, tracker: str) -> str | None:
        """What a tracker called this run when it began."""
        with suppress(CheckpointError):  # it is not there, or was cut short
            found = read_json(self.folder / IDS)
            return found.get(tracker) if isinstance(found, dict) else None
        return None

    def note_id(self, tracker: str, name: str) -> None:
        """Remember what a tracker calls this run."""
        write_whole(self.folder / IDS, json.dumps({tracker: name}) + "\n")


@dataclass(frozen=True, slots=True)
class TrackerKind:
    """An entry of the registry."""

    start: Callable[[Tracking], Tracker]
    module: str | None = None
    """What must be installed."""
    package: str | None = None
    """What brings it."""


TRACKERS: Registry[TrackerKind] = Registry("train.log")


def check_installed(name: str) -> None:
    """Refuse a tracker whose library is not there, with how to get it."""
    kind = TRACKERS[name]
    if kind.module is not None and find_spec(kind.module) is None:
        raise ConfigError(
            f"train.log={name} needs {kind.module}, which is not installed: pip install "
            f"{kind.package}, or take train.log=tensorboard"
        )


class Tracked:
    """A tracker whose own failures are told once and end nothing: metrics.jsonl has every line."""

    def __init__(self, name: str, tracking: Tracking, say: Callable[[str], None]) -> None:
        self._name, self._say = name, say
        check_installed(name)
        try:
            self._tracker: Tracker | None = TRACKERS[name].start(tracking)
        except RegardError:
            raise
        except Exception as error:
            raise ConfigError(
                f"train.log={name} does not start: {told(error)}; take train.log=none"
            ) from error

    def __call__(self, line: Line) -> None:
        """Take in one report."""
        if self._tracker is not None:
            self._telling(lambda tracker: tracker(line))

    def close(self) -> None:
        """Write what is left."""
        if self._tracker is not None:
            self._telling(lambda tracker: tracker.close())

    def _telling(self, do: Callable[[Tracker], None]) -> None:
        assert self._tracker is not None
        try:
            do(self._tracker)
        except RegardError:
            raise
        except Exception as error:
            self._tracker = None
            self._say(
                f"train.log={self._name} failed: {told(error)}; training goes on without it, "
                "metrics.jsonl has every line"
            )


def numbers_of(line: Line) -> dict[str, float]:
    """The numbers of a line, by ``kind/name``."""
    return {
        f"{line['kind']}/{name}": value
        for name, value in line.items()
        if isinstance(value, int | float) and name != "step"
    }


# ------------------------------------------------------------------ none


class _Nowhere:
    def __call__(self, line: Line) -> None:
        pass

    def close(self) -> None:
        pass


TRACKERS.add("none")(TrackerKind(lambda _tracking: _Nowhere()))


# ------------------------------------------------------------------ TensorBoard


class TensorBoardEvents:
    """Events in the run folder.

    Torch's own writer of events does this in a thread, whose errors (a full disk) nobody can catch.
    """

    def __init__(self, tracking: Tracking) -> None:
        from tensorboard.compat.proto.event_pb2 import SessionLog
        from tensorboard.summary.writer.record_writer import RecordWriter

        folder = tracking.folder / "tensorboard"
        self._path = folder / f"events.out.tfevents.{time.time_ns()}.regard"
        with telling(self._path):
            folder.mkdir(parents=True, exist_ok=True)
            self._file = self._path.open("wb")
        self._writer = RecordWriter(self._file)
        self._put(file_version="brain.Event:2")
        # Tells the reader to forget what a killed run wrote about the steps that come again.
        again = SessionLog(status=SessionLog.START)
        self._put(step=tracking.first_step + 1, session_log=again)

    def __call__(self, line: Line) -> None:
        """Take in one report."""
        from tensorboard.compat.proto.summary_pb2 import Summary

        found = numbers_of(line).items()
        values = [Summary.Value(tag=name, simple_value=value) for name, value in found]
        self._put(step=line["step"], summary=Summary(value=values))

    def close(self) -> None:
        """Close the file."""
        with suppress(OSError):  # the rest of a write that has already failed
            self._file.close()

    def _put(self, **event: Any) -> None:
        from tensorboard.compat.proto.event_pb2 import Event

        with telling(self._path):
            self._writer.write(Event(wall_time=time.time(), **event).SerializeToString())
            self._file.flush()


TRACKERS.add("tensorboard")(TrackerKind(TensorBoardEvents))


# ------------------------------------------------------------------ Weights & Biases


class WandbRun:
    """A run of Weights & Biases; its files lie in the run folder."""

    def __init__(self, tracking: Tracking) -> None:
        wandb = import_module("wandb")
        name = tracking.run_id("wandb") or secrets.token_hex(8)
        self._run = wandb.init(
            project=PROJECT,
            name=tracking.folder.resolve().name,
            id=name,
            resume="allow",
            dir=str(tracking.folder),
            config=dict(tracking.settings),
        )
        tracking.note_id("wandb", name)

    def __call__(self, line: Line) -> None:
        """Take in one report; a line of a step that came before is dropped there."""
        self._run.log(numbers_of(line), step=line["step"])

    def close(self) -> None:
        """Wait until all is written."""
        self._run.finish()


TRACKERS.add("wandb")(TrackerKind(WandbRun, "wandb", "wandb"))


# ------------------------------------------------------------------ MLflow


class MlflowRun:
    """A run of MLflow, in the experiment that its own settings name, or ``regard``."""

    def __init__(self, tracking: Tracking) -> None:
        self._client = import_module("mlflow").MlflowClient()
        known = tracking.run_id("mlflow")
        self._id: str = known or self._begun(tracking)
        tracking.note_id("mlflow", self._id)
        if known is not None:
            self._client.update_run(known, status="RUNNING")

    def _begun(self, tracking: Tracking) -> str:
        experiment = self._client.get_experiment_by_name(PROJECT)
        place = self._client.create_experiment(PROJECT) if experiment is None else None
        place = place or experiment.experiment_id
        run = self._client.create_run(place, run_name=tracking.folder.resolve().name)
        for name, value in tracking.settings.items():
            self._client.log_param(run.info.run_id, name, str(value)[:500])
        found: str = run.info.run_id
        return found

    def __call__(self, line: Line) -> None:
        """Take in one report."""
        for name, value in numbers_of(line).items():
            self._client.log_metric(self._id, name, float(value), step=line["step"])

    def close(self) -> None:
        """Mark the run as ended."""
        self._client.set_terminated(self._id)


TRACKERS.add("mlflow")(TrackerKind(MlflowRun, "mlflow", "mlflow"))
