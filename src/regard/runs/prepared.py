"""What training needs of a task before the first step."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import nn

from regard.data.stream import Stream
from regard.models.base import ModelConfig
from regard.recipes.recipe import Recipe
from regard.runs.evaluation import Evaluation
from regard.runs.units import unit_of
from regard.text.tokenizer import Tokenizer
from regard.training.losses import Objective

SHORT = 1000
"""Fewer steps than this are over before compiling has paid."""


class Validation(Protocol):
    """An evaluator for the training loop."""

    def __call__(self, model: Any) -> Mapping[str, float]:
        """Scores by name; ``loss`` is among them."""
        ...

    def rehearse(self, model: Any) -> None:
        """Do what a validation will cost, with a model that knows nothing yet."""
        ...


@dataclass(frozen=True, slots=True)
class Judged:
    """A trained run, and what it can do: its evaluations by test set."""

    run: Any
    evaluations: dict[str, Evaluation]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared(ABC):
    """Data and a fresh model; each task adds what it reads and writes with."""

    recipe: Recipe
    config: ModelConfig
    model: nn.Module
    notes: tuple[str, ...]
    """What a user should know about the data."""
    device: torch.device

    @property
    def compiled(self) -> bool:
        """Whether kernels are made to measure; by default where that pays."""
        return self.recipe.train.compile is True

    @property
    def captured(self) -> bool:
        """Whether updates are recorded as one graph: their shapes must all be the same."""
        return False

    @property
    def criteria(self) -> tuple[str, ...]:
        """By which of its scores a validation may choose the best weights."""
        return ("loss",)

    @property
    def unit(self) -> str:
        """What a loss is averaged over, for people."""
        return unit_of(self.recipe.task).one

    @property
    def vocabularies(self) -> tuple[Tokenizer, ...]:
        """What ids stand for: one for all texts, or one for the source and one for the target."""
        return ()

    @property
    @abstractmethod
    def size(self) -> Mapping[str, int]:
        """How much there is to learn from, and with: numbers by name."""

    @abstractmethod
    def stream(self) -> Stream:
        """The batches of this recipe, from the first."""

    @abstractmethod
    def objective(self) -> Objective:
        """What training makes small."""

    @abstractmethod
    def validation(self) -> Validation:
        """The evaluator that training is given."""

    @abstractmethod
    def flops(self, batch: Any) -> float:
        """What a training step on a batch costs, its padding included."""

    @abstractmethod
    def example(self, number: int) -> str:
        """A training example by its number, for people."""

    @abstractmethod
    def judged(self, out: Path, test_sets: Sequence[str] | None) -> Judged:
        """The trained run in a folder, scored on test sets; on all there are if none are named."""

    @abstractmethod
    def report(self, judged: Judged, facts: Mapping[str, Any]) -> None:
        """Write a page for people into the run's folder; ``facts`` are those of scores.json."""

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write what text is read and written with."""


class Scoring:
    """An evaluator for the training loop that gives what a function finds."""

    def __init__(self, scores: Callable[[Any], Mapping[str, float]]) -> None:
        self._scores = scores

    @torch.inference_mode()
    def __call__(self, model: Any) -> Mapping[str, float]:
        """Scores by name, ``loss`` among them."""
        return self._scores(model)

    def rehearse(self, model: Any) -> None:
        """What a validation will cost: there is no writing that a fresh model could not end."""
        self(model)
