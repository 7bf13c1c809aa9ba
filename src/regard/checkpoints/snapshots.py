"""Snapshots of a training, which is what resuming needs.

One safetensors file holds all of it, tensors and, in its header, facts: so it is there whole or not
at all, and nothing in it can execute code. It is copied at once, and written while training goes
on.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from regard.checkpoints.digests import check_digest, write_digested
from regard.checkpoints.run_folder import check_format
from regard.core.errors import CheckpointError, RegardError
from regard.core.files import PARTIAL, check_regular, parse_json
from regard.core.numbers import told

SNAPSHOT_FORMAT = 2
"""1, which is not written down in a snapshot, had no buffers and knew Adam alone."""
_NUMBERS = (int, float, NoneType)
_SNAPSHOT = re.compile(r"step-(\d+)\.safetensors")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A training at the end of a step."""

    step: int
    tensors: Mapping[str, Tensor]
    facts: Mapping[str, Any]
    """All that is no tensor; JSON."""

    def part(self, prefix: str) -> dict[str, Tensor]:
        """The tensors whose names begin with a prefix, without it."""
        found = {name: x for name, x in self.tensors.items() if name.startswith(prefix)}
        return {name.removeprefix(prefix): x for name, x in found.items()}


class BackgroundStore:
    """A folder of snapshots that are written while training goes on, one after another."""

    def __init__(self, folder: Path, *, keep: int = 2) -> None:
        self.folder, self.keep = folder, keep
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="snapshots")
        self._pending: Future[None] | None = None

    def begin(self, write: Callable[[], None]) -> None:
        """Let ``write`` be called by another thread; the call before must have ended."""
        self._pending = self._thread.submit(write)

    def wait(self) -> None:
        """Wait until the last snapshot is whole; what went wrong in writing it is raised here."""
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.result()


class SnapshotStore(BackgroundStore):
    """Snapshots, each one file: the last ``keep`` and the best are kept."""

    def save(self, snapshot: Snapshot, *, best_step: int | None) -> None:
        """Copy a snapshot and begin to write it; the one before must be whole first."""
        self.wait()
        tensors = {name: copied(tensor) for name, tensor in snapshot.tensors.items()}
        facts = {"format": SNAPSHOT_FORMAT, "step": snapshot.step, **snapshot.facts}
        written = json.dumps(facts)
        self.begin(lambda: self._write(snapshot.step, tensors, written, best_step))

    def _write(
        self, step: int, tensors: dict[str, Tensor], facts: str, best_step: int | None
    ) -> None:
        """Write a snapshot, then delete what is no longer needed."""
        write_digested(self.path(step), tensors, {"facts": facts})
        for older in self.steps()[: -self.keep]:
            if older != best_step:
                self.path(older).unlink()
        for leftover in self.folder.glob(f"*{PARTIAL}"):
            leftover.unlink()

    def latest(self, say: Callable[[str], None] = lambda _text: None) -> Snapshot | None:
        """The newest whole snapshot, or None where there is none; ``say`` is told of damaged ones.

        Where all are damaged, that is an error: to begin anew would be to lose them.
        """
        damaged: list[DamagedSnapshotError] = []
        for step in reversed(self.steps()):
            try:
                snapshot = load_snapshot(self.path(step))
            except DamagedSnapshotError as error:
                damaged.append(error)
                continue
            for one in damaged:
                say(f"{one}; going on from step {step}, the newest that is whole")
            return snapshot
        if damaged:
            raise damaged[0]
        return None

    def whole_steps(self, say: Callable[[str], None]) -> list[int]:
        """The steps of all snapshots that are not damaged, in order; ``say`` is told of others."""
        whole = []
        for step in self.steps():
            try:
                check_digest(self.path(step))
                whole.append(step)
            except CheckpointError as error:
                say(f"left out: {error}")
        return whole

    def steps(self) -> list[int]:
        """The steps of all complete snapshots, in order."""
        if not self.folder.is_dir():
            return []
        matches = (_SNAPSHOT.fullmatch(path.name) for path in self.folder.iterdir())
        return sorted(int(match[1]) for match in matches if match)

    def path(self, step: int) -> Path:
        """Where the snapshot of a step lies."""
        return self.folder / f"step-{step:08d}.safetensors"


def copied(tensor: Tensor) -> Tensor:
    """What a tensor is now, on the CPU, in memory of its own."""
    return torch.empty_like(tensor, device="cpu", memory_format=torch.contiguous_format).copy_(
        tensor
    )


class DamagedSnapshotError(CheckpointError):
    """A snapshot is not what was written; an older one may be whole."""


def load_snapshot(path: Path) -> Snapshot:
    """Read a snapshot, or say which file is broken and what to do."""
    check_regular(path)
    try:
        check_digest(path)
        with safe_open(path, framework="pt") as file:
            facts = parse_json(file.metadata()["facts"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, TypeError, KeyError, ValueError, CheckpointError) as error:
        raise DamagedSnapshotError(
            f"checkpoint {path} cannot be read ({told(error)}); delete it to resume from the one "
            "before"
        ) from error
    step = facts.pop("step", None) if isinstance(facts, dict) else None
    if type(step) is not int or step < 0:
        raise DamagedSnapshotError(
            f"checkpoint {path} does not say its step; delete it to resume from the one before"
        )
    found = facts.pop("format", 1)
    check_format(found, SNAPSHOT_FORMAT, path)
    if found == 1:
        tensors = {re.sub("^adam/", "optimiser/", name): x for name, x in tensors.items()}
    return Snapshot(step, tensors, facts)


@contextmanager
def taking_up(snapshot: Snapshot) -> Iterator[None]:
    """Inside the block a training becomes what a snapshot says; what it lacks is one error.

    A snapshot that is not damaged may still be another program's, or of another training.
    """
    try:
        yield
    except RegardError:
        raise
    except Exception as error:  # facts of any kind may be missing, or be of another kind
        reason = f"it has no {error}" if isinstance(error, KeyError) else told(error)
        raise CheckpointError(
            f"the checkpoint of step {snapshot.step} does not fit this training ({reason}); delete "
            "it to resume from the one before, or start a new run"
        ) from error


def check_facts(found: Any, like: Any, name: str = "what it says") -> None:
    """A ValueError where facts of a snapshot are of another kind than those of a training.

    A number that is nothing yet may be one later. Keys that are missing are told by who needs them.
    """
    if isinstance(like, Mapping) and isinstance(found, Mapping):
        for key in (key for key in like if key in found):
            check_facts(found[key], like[key], key)
        return
    kind = type(like)
    fits = type(found) in _NUMBERS if kind in (float, NoneType) else type(found) is kind
    if isinstance(like, Mapping) or not fits or (kind is int and found < 0):
        raise ValueError(f"{name} is {found!r:.60}")
