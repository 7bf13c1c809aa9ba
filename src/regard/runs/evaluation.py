"""What a run was found to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Scores, and the texts they are of, one an example."""

    scores: dict[str, Any]
    translations: list[str]
