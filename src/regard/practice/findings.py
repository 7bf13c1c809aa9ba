"""What a check found: a finding for each blank, and a report of a file. Plain data, no tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from regard.core.plain import plain, plain_line

LONGEST = 1000
"""Signs of a message or of a number that is shown; a process may send anything."""
_MOST_ARGUMENTS = 20


class State(StrEnum):
    """What became of a blank."""

    PASSED = "passed"
    WRONG = "wrong"
    """It ran, and its results are not right."""
    BLANK = "blank"
    """Not written yet."""
    BROKEN = "broken"
    """It raised an error, did not end, or is not there."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found out about one blank."""

    part: str
    state: State
    message: str = ""
    """What is wrong, in a line; empty where it passed."""
    where: str = ""
    """The line of the learner's file in which an error was raised."""
    example: Mapping[str, str] = field(default_factory=dict)
    """The smallest arguments on which it fails, by name."""
    yours: str = ""
    """What the learner's function made of them."""
    right: str = ""

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


def finding_from(found: Any) -> Finding:
    """A finding from data that a process sent, bounded and without control characters.

    A ValueError where it is none.
    """
    if not isinstance(found, dict) or not isinstance(found.get("example"), dict):
        raise ValueError("not a finding")
    example = {plain_line(str(name)): _bounded(value) for name, value in found["example"].items()}
    if len(example) > _MOST_ARGUMENTS:
        raise ValueError("an example with too many arguments")
    texts = {key: _bounded(found.get(key, "")) for key in ("message", "where", "yours", "right")}
    return Finding(str(found.get("part")), State(str(found.get("state"))), example=example, **texts)


def _bounded(value: Any) -> str:
    text = plain(str(value))
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


@dataclass(frozen=True, slots=True)
class Report:
    """What a check found out about a learner's file."""

    file: str
    exercise: str
    of: int = 0
    """Blanks of the exercise; 0 where it is not known."""
    findings: Sequence[Finding] = ()
    failure: str = ""
    """Why nothing in it could be checked; empty where something could."""
    printed: str = ""
    """The beginning of what the learner's code printed."""

    @property
    def n_passed(self) -> int:
        """Blanks that passed."""
        return sum(one.state is State.PASSED for one in self.findings)

    @property
    def solved(self) -> bool:
        """Whether all blanks passed."""
        return not self.failure and self.n_passed == self.of

    @property
    def first_failure(self) -> str:
        """The first thing that is wrong, in a line; empty where nothing is."""
        if self.failure:
            return self.failure
        for one in self.findings:
            if one.state is not State.PASSED:
                return f"{one.part}: {one.message}"
        return ""

    def as_json(self) -> dict[str, Any]:
        """What ``regard practice --check FILE --json`` prints."""
        return {
            "file": self.file,
            "exercise": self.exercise,
            "solved": self.solved,
            "passed": self.n_passed,
            "of": self.of,
            "first_failure": self.first_failure,
            "parts": [one.as_json() for one in self.findings],
            "printed": self.printed,
        }
