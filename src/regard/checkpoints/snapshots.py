"""What resuming needs, in one file a checkpoint: tensors, and facts in the file's header.

One safetensors file holds everything, so that a checkpoint is there whole or not at all, and
nothing in it can execute code.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from regard.checkpoints.run_folder import check_format
from regard.core.errors import CheckpointError
from regard.core.files import PARTIAL, write_whole

FORMAT = 2
"""Of a checkpoint. 1, which is not written down in it, had no buffers and knew Adam alone."""
_NAME = re.compile(r"step-(\d+)\.safetensors")


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


class SnapshotStore:
    """A folder of snapshots: the last two and the best are kept."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def save(self, snapshot: Snapshot, *, best_step: int | None) -> Path:
        """Write a snapshot, then delete what is no longer needed."""
        path = self.path(snapshot.step)
        tensors = {name: tensor.contiguous() for name, tensor in snapshot.tensors.items()}
        facts = {"format": FORMAT, "step": snapshot.step, **snapshot.facts}
        write_whole(path, save(tensors, metadata={"facts": json.dumps(facts)}))
        for step in self.steps()[:-2]:
            if step != best_step:
                self.path(step).unlink()
        for leftover in self.folder.glob(f"*{PARTIAL}"):
            leftover.unlink()
        return path

    def latest(self) -> Snapshot | None:
        """The newest complete snapshot, or None where there is none."""
        steps = self.steps()
        return load_snapshot(self.path(steps[-1])) if steps else None

    def steps(self) -> list[int]:
        """The steps of all complete snapshots, in order."""
        if not self.folder.is_dir():
            return []
        matches = (_NAME.fullmatch(path.name) for path in self.folder.iterdir())
        return sorted(int(match[1]) for match in matches if match)

    def path(self, step: int) -> Path:
        """Where the snapshot of a step lies."""
        return self.folder / f"step-{step:08d}.safetensors"


def load_snapshot(path: Path) -> Snapshot:
    """Read a snapshot, or say which file is broken and what to do."""
    try:
        with safe_open(path, framework="pt") as file:
            facts = json.loads(file.metadata()["facts"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, TypeError, KeyError, ValueError) as error:
        raise CheckpointError(
            f"checkpoint {path} cannot be read ({error}); delete it to resume from the one before"
        ) from error
    found = facts.pop("format", 1)
    check_format(found, FORMAT, path)
    if found == 1:
        tensors = {re.sub("^adam/", "optimiser/", name): x for name, x in tensors.items()}
    return Snapshot(facts.pop("step"), tensors, facts)
