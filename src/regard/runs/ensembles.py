"""Runs that are scored as one, an ensemble: once, and what came of it is kept in a file."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.checkpoints.run_folder import RunFolder
from regard.core.errors import CheckpointError
from regard.core.files import read_json, write_whole
from regard.runs.comparison import SPLIT
from regard.runs.jobs import Post
from regard.runs.trainings import untold
from regard.tasks.base import TASKS, Evaluation
from regard.tasks.opening import device_at, load


@dataclass(frozen=True, slots=True)
class ScoredEnsemble:
    """Some runs, and the file that has their scores as one on the test set of the first."""

    name: str
    paths: tuple[Path, ...]
    kept: Path

    @property
    def finished(self) -> bool:
        """Whether it was scored."""
        return self._read() is not None

    def scored(self, device: str | None, say: Callable[[str], None] = untold) -> dict[str, Any]:
        """``scores`` and ``outputs``: read back, or made."""
        kept = self._read()
        if kept is None:
            say(f"{self.name}: scoring {len(self.paths)} runs as one")
            found = scored_together(self.paths, device)
            kept = {"scores": found.scores, "outputs": found.outputs}
            write_whole(self.kept, json.dumps(kept, ensure_ascii=False) + "\n")
        return kept

    def _read(self) -> dict[str, Any] | None:
        """What was kept; None where it is not there, was cut short, or is older than a run."""
        try:
            kept: dict[str, Any] = read_json(self.kept)
            newest = max(RunFolder(path).scores.stat().st_mtime_ns for path in self.paths)
        except (CheckpointError, FileNotFoundError):
            return None
        whole = isinstance(kept, dict) and {"scores", "outputs"} <= kept.keys()
        return kept if whole and self.kept.stat().st_mtime_ns >= newest else None


def scored_together(paths: Sequence[Path], device: str | None) -> Evaluation:
    """Runs as an ensemble, on the test set of the first."""
    run = load(paths, device=device)
    return TASKS[run.task].evaluate(run, SPLIT)


def score(ensemble: ScoredEnsemble, device: str | None, post: Post) -> None:
    """A job: score an ensemble, unless that is done."""
    ensemble.scored(device_at(device, post.slot), post.say)
