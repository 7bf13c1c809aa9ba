"""The table of exercises. None is imported before a learner's file is checked."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from regard.core.errors import ConfigError
from regard.core.registry import Registry
from regard.practice.handout import Handout, read_handout
from regard.practice.sheet import Sheet

_FOLDER = Path(__file__).with_name("exercises")
_NAMES = (
    "attention", "masks", "heads", "sinusoids", "permutation", "layer", "encoder", "pipeline",
    "bahdanau", "beam", "patches",
)  # fmt: skip
"""In the order in which a course would set them."""


@dataclass(frozen=True, slots=True)
class Exercise:
    """Where an exercise is written.

    A plug-in adds its own by ``EXERCISES.add("mine")(Exercise(__name__, Path(__file__)))``.
    """

    module: str
    """The module that holds its ``sheet``."""
    file: Path
    """The same module as a file, from which the text with blanks is made."""

    def handout(self) -> Handout:
        """What a learner is given; the module is read, not imported."""
        return read_handout(self.file)

    def sheet(self) -> Sheet:
        """What judges a learner's functions; the module is imported, and torch with it."""
        found: Sheet = import_module(self.module).sheet
        for part in found.parts.values():
            if not any(True for _ in part.cases()):
                raise ConfigError(f"{part.name} has no examples: give some by @sheet.cases")
        return found


EXERCISES: Registry[Exercise] = Registry("exercise")
for _name in _NAMES:
    EXERCISES.add(_name)(
        Exercise(f"regard.practice.exercises.{_name}", _FOLDER / f"{_name}.py"),
    )
