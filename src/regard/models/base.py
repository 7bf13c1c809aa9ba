"""What models have in common, and what those that write a target do."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import torch.nn.functional as F
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor, nn


class ModelConfig(BaseModel):
    """Architecture only: saved with the weights. No devices, no paths."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    family: str
    pad_id: int = 0
    d_model: int = Field(ge=1)
    max_len: int = Field(512, ge=4)

    @property
    def longest(self) -> int | None:
        """The most tokens a text may have; None where any number will do."""
        return None

    @property
    def idle(self) -> tuple[str, ...]:
        """Settings of the family that do nothing in this model."""
        return ()

    @property
    def packs(self) -> bool:
        """Whether the model reads texts that lie end to end, as well as padded ones."""
        return False


class SequenceConfig(ModelConfig):
    """Of a model that writes a target, given a source."""

    n_source_vocab: int = Field(ge=1)
    n_target_vocab: int = Field(ge=1)
    shared_vocab: bool = True


class Output(NamedTuple):
    """The last layer: logits are states @ weightᵀ + bias."""

    weight: Tensor
    """(V, D)"""
    bias: Tensor | None
    """(V,)"""


class LazyLogits(NamedTuple):
    """Logits before the last product: a fused loss never builds them whole."""

    states: Tensor
    """(…, D)"""
    weight: Tensor
    """(V, D)"""
    bias: Tensor | None
    """(V,)"""


class Switching(nn.Module):
    """Counts how often it was switched between training and evaluation.

    An update that is replayed from a CUDA graph changes weights without a trace: whoever keeps
    something that was made of them sees here that it may be out of date.
    """

    n_switches = 0

    def train(self, mode: bool = True) -> Self:
        """Switch dropout on or off, as torch has it."""
        self.n_switches += 1
        return super().train(mode)


class SequenceModel(Switching):
    """Speaks the protocol of ``regard.decoding``; see there for what each method owes."""

    config: SequenceConfig

    def forward(self, source: Tensor, target: Tensor, *, lazy: bool = False) -> Tensor | LazyLogits:
        """Source ids (B, S), target ids (B, T) from the begin token on -> logits (B, T, V)."""
        states = self.states(source, target)
        return LazyLogits(states, *self.output()) if lazy else self.logits(states)

    def states(self, source: Tensor, target: Tensor) -> Tensor:
        """As ``forward``, up to the last layer -> (B, T, D)."""
        raise NotImplementedError

    def output(self) -> Output:
        """The last layer, for who can do more with it than multiply."""
        raise NotImplementedError

    def logits(self, states: Tensor) -> Tensor:
        """(…, D) -> (…, V)"""
        return F.linear(states, *self.output())

    def encode(self, source: Tensor) -> Any:
        """Source ids (B, S) -> what the decoder will look at."""
        raise NotImplementedError

    def start(self, memory: Any) -> Any:
        """The state before the first target token."""
        raise NotImplementedError

    def step(self, ids: Tensor, memory: Any, state: Any) -> tuple[Tensor, Any]:
        """Last target ids (B,) -> logits (B, V) for the next, and the new state."""
        raise NotImplementedError
