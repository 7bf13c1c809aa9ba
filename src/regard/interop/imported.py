"""What reading a foreign model gives, whatever its format."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from regard.models.base import ModelConfig


@dataclass(frozen=True, slots=True)
class Imported:
    """A model of others, in our terms."""

    config: ModelConfig
    weights: dict[str, Tensor]
    """Float32, under the names of our model's parameters, each of them."""
    notes: tuple[str, ...] = ()
    """What a user should know about the way, a sentence each."""
