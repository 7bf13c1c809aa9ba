"""What a run was found to do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Scores, and the texts they are of, one an example."""

    scores: dict[str, Any]
    translations: list[str]


def test_sets_of(splits: Iterable[str]) -> list[str]:
    """The splits that neither train nor choose anything; ``valid`` where there are none."""
    return [name for name in splits if name not in ("train", "valid")] or ["valid"]
