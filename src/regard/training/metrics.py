"""Metrics on disk: a JSON line a report, and TensorBoard events beside it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class MetricsLog:
    """An observer of the training loop that writes ``metrics.jsonl`` and TensorBoard events."""

    def __init__(self, path: Path, *, first_step: int) -> None:
        """Go on after ``first_step``: lines of a run that was killed later are dropped."""
        from torch.utils.tensorboard import SummaryWriter  # takes a second to import

        path.parent.mkdir(parents=True, exist_ok=True)
        kept = [line for line in read_metrics(path) if line["step"] <= first_step]
        self._file = path.open("w", encoding="utf-8")
        for line in kept:
            self._write(line)
        self._events = SummaryWriter(str(path.parent / "tensorboard"), purge_step=first_step + 1)

    def __call__(self, line: Mapping[str, Any]) -> None:
        """Take in one report."""
        self._write(line)
        for name, value in line.items():
            if isinstance(value, int | float) and name != "step":
                self._events.add_scalar(f"{line['kind']}/{name}", value, line["step"])

    def close(self) -> None:
        """Flush both."""
        self._file.close()
        self._events.close()

    def _write(self, line: Mapping[str, Any]) -> None:
        self._file.write(json.dumps(line) + "\n")
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
