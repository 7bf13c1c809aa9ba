"""What a run was found to do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What a run was found to do."""

    scores: dict[str, Any]
    """``task``, ``split``, ``n``, and the scores by name."""
    outputs: list[str]
    """What the model gave for each example, where that is text."""
    notes: tuple[str, ...] = ()
    """What a user should know about how the data was read."""


def test_sets_of(splits: Iterable[str]) -> list[str]:
    """The splits that neither train nor choose anything; ``valid`` where there are none."""
    return [name for name in splits if name not in ("train", "valid")] or ["valid"]
