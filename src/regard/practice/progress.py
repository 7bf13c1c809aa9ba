"""What a learner has solved and which hints were given, in one file of this user's.

It is ``$XDG_STATE_HOME/regard/practice.json``, by default ``~/.local/state/regard/practice.json``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard.core.files import damage_told, read_json, write_whole
from regard.core.state import state_folder
from regard.practice.findings import Report, State
from regard.practice.handout import Blank, Handout


def progress_file() -> Path:
    """Where progress is kept."""
    return state_folder() / "practice.json"


@dataclass(slots=True)
class Done:
    """How far one exercise is."""

    passed: set[str] = field(default_factory=set)
    """Blanks that have passed a check."""
    hints: dict[str, int] = field(default_factory=dict)
    """How many hints were given, by blank."""

    def next_blank(self, handout: Handout) -> Blank | None:
        """The first blank that has not passed, or None where all have."""
        return next((one for one in handout.blanks if one.name not in self.passed), None)

    def may_see_solution(self, handout: Handout) -> bool:
        """Whether it is solved, or every hint for what is left was given."""
        left = [one for one in handout.blanks if one.name not in self.passed]
        return all(self.hints.get(one.name, 0) >= len(one.hints) for one in left)


class Progress:
    """Of all exercises, by name."""

    def __init__(self) -> None:
        self._all: dict[str, Done] = {}
        path = progress_file()
        if path.exists():
            with damage_told(path):
                self._all = {name: _read(one) for name, one in read_json(path).items()}

    def of(self, name: str) -> Done:
        """How far an exercise is."""
        return self._all.setdefault(name, Done())

    def take(self, report: Report) -> None:
        """What a check found out; a blank that passed once stays so."""
        passed = {one.part for one in report.findings if one.state is State.PASSED}
        self.of(report.exercise).passed |= passed

    def save(self) -> None:
        """Write the file, whole or not at all."""
        told = {
            name: {"passed": sorted(one.passed), "hints": one.hints}
            for name, one in self._all.items()
            if one.passed or one.hints
        }
        write_whole(progress_file(), json.dumps(told, indent=1) + "\n")


def _read(found: Any) -> Done:
    hints = {str(name): int(count) for name, count in found["hints"].items()}
    return Done({str(name) for name in found["passed"]}, hints)
