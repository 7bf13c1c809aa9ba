"""What models have in common, and what those that write a target do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import torch.nn.functional as F
from torch import Tensor, nn
from typing_extensions import override

from regard.functional.packing import Packing
from regard.layers.blocks import make_norm
from regard.layers.embeddings import InputEmbedding
from regard.layers.positions import make_positions
from regard.models.settings import BlocksConfig, SequenceConfig


class Output(NamedTuple):
    """The last layer: logits are states @ weightᵀ + bias."""

    weight: Tensor
    """(V, D)"""
    bias: Tensor | None
    """(V,)"""


def tied(tokens: nn.Embedding, d_model: int) -> Tensor:
    """The embedding (V, d_tokens) as an output matrix (V, D): it reads the tokens' part of states.

    Where positions stand beside the tokens, their part of the stream is multiplied by zero.
    """
    beside = d_model - tokens.embedding_dim
    return F.pad(tokens.weight, (0, beside)) if beside else tokens.weight


def input_embedding(config: BlocksConfig, tokens: nn.Embedding, **options: Any) -> InputEmbedding:
    """How tokens enter a Transformer; see ``InputEmbedding`` for the options."""
    positions = make_positions(
        config.positions,
        config.d_tokens,
        join=config.joined_by,
        max_len=config.n_positions,
        d_code=config.d_positions,
    )
    return InputEmbedding(
        tokens,
        positions,
        d_model=config.d_model,
        dropout=config.dropout,
        token_dropout=config.token_dropout,
        **options,
    )


def stream_norm(config: BlocksConfig) -> nn.Module:
    """A norm of the residual stream."""
    return make_norm(config.norm, config.d_model, eps=config.eps)


def last_norm(config: BlocksConfig) -> nn.Module:
    """Pre-norm leaves the stream unnormalised at the end; post-norm does not."""
    return stream_norm(config) if config.norm_first else nn.Identity()


class LazyLogits(NamedTuple):
    """Logits before the last product: a fused loss never builds them whole."""

    states: Tensor
    """(…, D)"""
    weight: Tensor
    """(V, D)"""
    bias: Tensor | None
    """(V,)"""


@dataclass(frozen=True, slots=True)
class NoMemory:
    """The memory of a model that has no source to look at: so many rows of nothing."""

    n_rows: int

    def select(self, rows: Tensor) -> NoMemory:
        """As many rows as are asked for."""
        return NoMemory(len(rows))


class GenerativeModel(nn.Module):
    """A model that writes one token after another, as the protocol of ``regard.decoding`` asks."""

    n_switches = 0
    """How often it was switched between training and evaluation. An update that is replayed from a
    CUDA graph changes weights without a trace: whoever keeps something that was made of them sees
    here that it may be out of date."""

    def train(self, mode: bool = True) -> Self:
        """Switch dropout on or off, as torch has it."""
        self.n_switches += 1
        return super().train(mode)

    def output(self) -> Output:
        """The last layer, for who can do more with it than multiply."""
        raise NotImplementedError

    def logits(self, states: Tensor) -> Tensor:
        """(…, D) -> (…, V)"""
        return F.linear(states, *self.output())

    def read(self, ids: Tensor, memory: Any, state: Any) -> tuple[Tensor, Any]:
        """ids (B, T) after ``state`` -> what the last layer reads (B, T, D), and the new state."""
        raise NotImplementedError

    def prefill(self, ids: Tensor, memory: Any, state: Any) -> tuple[Tensor, Any]:
        """ids (B, T), T ≥ 1, after ``state`` -> logits (B, V) of the next, and the new state."""
        states, state = self.read(ids, memory, state)
        return self.logits(states[:, -1]), state

    def step(self, ids: Tensor, memory: Any, state: Any) -> tuple[Tensor, Any]:
        """Last target ids (B,) -> logits (B, V) for the next, and the new state."""
        return self.prefill(ids.unsqueeze(1), memory, state)


class SequenceModel(GenerativeModel):
    """Writes a target, given a source: an encoder, and a decoder that runs over any number of ids.

    ``decoder(ids, memory, state)`` is what ``read`` is, ``decoder.to_logits`` the last layer.
    """

    config: SequenceConfig
    decoder: Any
    reads_as_one: ClassVar[bool] = False
    """Whether source and target are one text to it, which its decoder reads."""

    def forward(self, source: Tensor, target: Tensor, *, lazy: bool = False) -> Tensor | LazyLogits:
        """Source ids (B, S), target ids (B, T) from the begin token on -> logits (B, T, V)."""
        return self.said(self.states(source, target), lazy)

    def said(self, states: Tensor, lazy: bool) -> Tensor | LazyLogits:
        """States (…, D) -> logits (…, V), or what they are made of."""
        return LazyLogits(states, *self.output()) if lazy else self.logits(states)

    def read_ids(self, source: Tensor, target: Tensor) -> Tensor:
        """Ids that the decoder reads in ``forward``, position by position: the target's, (B, T)."""
        return target

    def states(self, source: Tensor, target: Tensor) -> Tensor:
        """What the last layer reads, (B, T, D)."""
        memory = self.encode(source)
        return self.read(target, memory, self.start(memory))[0]

    def encode(self, source: Tensor) -> Any:
        """Source ids (B, S) -> what the decoder will look at."""
        raise NotImplementedError

    def start(self, memory: Any) -> Any:
        """The state before the first target token."""
        raise NotImplementedError

    @override
    def output(self) -> Output:
        return Output(self.decoder.to_logits.weight, self.decoder.to_logits.bias)

    @override
    def read(self, ids: Tensor, memory: Any, state: Any) -> tuple[Tensor, Any]:
        return self.decoder(ids, memory, state)


class PackingModel(SequenceModel):
    """One that reads texts that lie end to end, (1, N), as well as padded ones."""

    @override
    def forward(
        self, source: Tensor, target: Tensor, packing: Packing | None = None, *, lazy: bool = False
    ) -> Tensor | LazyLogits:
        if packing is None:
            return super().forward(source, target, lazy=lazy)
        return self.said(self.packed_states(source, target, packing), lazy)

    def packed_states(self, source: Tensor, target: Tensor, packing: Packing) -> Tensor:
        """What the last layer reads of all targets, (1, N, D)."""
        raise NotImplementedError
