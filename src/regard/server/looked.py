"""What answers about looks have in common, whatever was looked at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from regard.runs.looking.look import Look
from regard.server.asking import LookRequest

T = TypeVar("T")


class Once(Generic[T]):
    """An answer that never changes is made once. Always called on one and the same thread."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self.made: T | None = None
        """The answer, where it is there; any thread may look."""

    def __call__(self) -> T:
        """The answer."""
        if self.made is None:
            self.made = self._make()
        return self.made


def beside(look: Look, asked: LookRequest) -> dict[str, Any]:
    """What was asked for beside the weights: the steps of a row, and where a look leads."""
    answer: dict[str, Any] = {}
    if asked.steps is not None:
        answer["steps"] = look.steps(**asked.steps.model_dump()).as_json()
    if asked.rollout is not None:
        answer["rollout"] = look.rollout(asked.rollout).tolist()
    return answer
