"""A decoder alone, for which a source and its target are one text (Liu et al. 2018).

Also called a prefix language model, or decoder-only sequence to sequence. The source with its end
token comes first, then the target from its begin token on: these two tokens separate them. All is
read by the layers of a language model, nothing of the future being seen, and source and target
share one vocabulary. With windows by layer, ``block`` and ``compressed``, documents of thousands of
tokens are read in memory that grows with their length alone (T-DMCA).

Texts of a batch have sources of different lengths. Where all is read at once, each target is laid
right behind its source, and padding behind all. Where a target is written token by token, keys and
values of the source are the memory and those of the target the state; each layer looks at both as
if they lay one behind the other.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, ClassVar, Literal, NamedTuple

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn
from typing_extensions import override

from regard.core.errors import ShapeError
from regard.kernels.call import product_type
from regard.layers.blocks import DecoderBlock
from regard.layers.embeddings import token_embedding
from regard.layers.key_values import DecoderState, KeyValues, PrefixMemory
from regard.layers.settings import Count
from regard.models.base import LazyLogits, Output, SequenceModel, input_embedding, last_norm, tied
from regard.models.settings import BlocksConfig, SequenceConfig


class PrefixDecoderConfig(SequenceConfig, BlocksConfig):
    """A decoder alone, of a source and a target."""

    PREDICTS_SOURCE: ClassVar[bool] = True

    family: Literal["prefix_decoder"] = "prefix_decoder"
    d_model: Count = Field(512, description="Width of the residual stream.")
    n_layers: Count = Field(6, description="Layers.")
    n_heads: Count = Field(8, description="Heads; must divide d_model.")
    d_ff: Count = Field(2048, description="Inner width of the feed-forward.")
    positions: str = Field("sinusoidal", description="How order is told.")
    norm_first: bool = Field(True, description="Norm before the sub-layer, not after.")
    max_len: int = Field(
        4000, ge=4, description="Longest source, and longest target, in tokens, specials included."
    )

    def problems(self) -> Iterator[str]:
        """Those of any Transformer, and two vocabularies."""
        yield from super().problems()
        if not self.shared_vocab or self.n_source_vocab != self.n_target_vocab:
            yield (
                "source and target are one text here and need one vocabulary: set text.shared=true"
            )

    @property
    def longest(self) -> int:
        """There is room for so many tokens of either side, and a document of more is refused."""
        return self.max_len

    @property
    def records(self) -> bool:
        """Documents leave room for few rows, so a step is many small kernels.

        Not with a normaliser that samples, nor with experts whose widths are no multiples of 8:
        both make the host wait.
        """
        from regard.functional.attend import is_drawn  # needs torch, which reading this does not
        from regard.kernels.grouped import are_aligned

        widths = () if self.experts is None else (self.d_model, self.expert_width)
        return not is_drawn(self.normaliser) and are_aligned(widths)

    @property
    def n_positions(self) -> int:
        """Of a source with its target."""
        return 2 * self.max_len


class BothLogits(NamedTuple):
    """Of a source and its target, each at a position those of the next token of its own side."""

    source: Tensor | LazyLogits
    """(B, S - 1, V)"""
    target: Tensor | LazyLogits
    """(B, T, V)"""


class DecoderStack(nn.Module):
    """Ids to vectors, nothing of the future being seen."""

    def __init__(self, config: PrefixDecoderConfig) -> None:
        super().__init__()
        n, self.pad_id = config.n_layers, config.pad_id
        wide = config.model_copy(update={"max_len": config.n_positions})  # a source and its target
        tokens = token_embedding(config.n_target_vocab, config.d_tokens)
        self.embedding = input_embedding(config, tokens, scale=math.sqrt(config.d_tokens))
        self.layers = nn.ModuleList(DecoderBlock(wide, layer=i, n_layers=n) for i in range(n))
        self.norm = last_norm(config)

    def forward(self, ids: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """ids (B, T) from the beginning of texts on -> (B, T, D), and what is kept of them."""
        x, real, present = self._entered(ids, 0), ids != self.pad_id, []
        for layer, past in zip(self.layers, state.layers, strict=True):
            x, now = layer(x, past, real=real)
            present.append(now)
        return self.norm(x), DecoderState(tuple(present))

    def after_prefix(
        self, ids: Tensor, memory: PrefixMemory, state: DecoderState
    ) -> tuple[Tensor, DecoderState]:
        """ids (B, T) after the ``state``, which stands behind a prefix -> (B, T, D), new state."""
        lengths, real, present = memory.lengths, ids != self.pad_id, []
        first = lengths + state.length
        x = self._entered(ids, first[:, None] + torch.arange(ids.shape[1], device=ids.device))
        for layer, past, prefix in zip(self.layers, state.layers, memory.layers, strict=True):
            assert isinstance(layer, DecoderBlock)
            x, now = layer.after_prefix(x, past, prefix, lengths, real)
            present.append(now)
        return self.norm(x), DecoderState(tuple(present))

    def _entered(self, ids: Tensor, positions: int | Tensor) -> Tensor:
        x = self.embedding(ids, positions)
        return x.to(product_type(x)) if self.training else x  # it is read and written most


class PrefixDecoder(SequenceModel):
    """Speaks the protocol of ``regard.decoding``: forward, encode, start, step."""

    reads_as_one = True

    def __init__(self, config: PrefixDecoderConfig) -> None:
        super().__init__()
        self.config: PrefixDecoderConfig = config
        self.decoder: DecoderStack = DecoderStack(config)

    @override
    def forward(
        self, source: Tensor, target: Tensor, *, lazy: bool = False, with_source: bool = False
    ) -> Any:
        """Logits of the target (B, T, V), or ``BothLogits`` with those of the source, too."""
        whole, written = self._read_at_once(source, target)
        logits = self.said(written, lazy)
        if not with_source:
            return logits
        return BothLogits(self.said(whole[:, : source.shape[1] - 1], lazy), logits)

    @override
    def states(self, source: Tensor, target: Tensor) -> Tensor:
        return self._read_at_once(source, target)[1]

    def _read_at_once(self, source: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """States of sources with their targets right behind (B, S + T, D); the targets' (B, T, D).

        The first of them are those of the source, as many as it has tokens.
        """
        self._check(source, target)
        states, _ = self.decoder(self.read_ids(source, target), self._nothing(len(source)))
        at = torch.arange(target.shape[1], device=source.device)
        rows = (self._lengths(source)[:, None] + at).unsqueeze(-1)
        return states, states.gather(1, rows.expand(-1, -1, states.shape[-1]))

    @override
    def read_ids(self, source: Tensor, target: Tensor) -> Tensor:
        """(B, S + T): each target right behind its source, and padding behind it."""
        ids = torch.cat((source, target), dim=1)
        n, lengths = ids.shape[1], self._lengths(source)[:, None]
        at = torch.arange(n, device=ids.device)
        behind = (at + (source.shape[1] - lengths)).clamp(max=n)  # place n is padding
        padded = F.pad(ids, (0, 1), value=self.config.pad_id)
        return padded.gather(1, torch.where(at < lengths, at, behind))

    @override
    def output(self) -> Output:
        return Output(tied(self.decoder.embedding.tokens, self.config.d_model), None)

    @override
    def encode(self, source: Tensor) -> PrefixMemory:
        self._check(source)
        _, state = self.decoder(source, self._nothing(len(source)))
        return PrefixMemory(state.layers, self._lengths(source))

    @override
    def start(self, memory: PrefixMemory) -> DecoderState:
        return DecoderState(tuple(layer.emptied() for layer in memory.layers))

    @override
    def read(
        self, ids: Tensor, memory: PrefixMemory, state: DecoderState
    ) -> tuple[Tensor, DecoderState]:
        return self.decoder.after_prefix(ids, memory, state)

    def _nothing(self, n_rows: int) -> DecoderState:
        config, like = self.config, self.decoder.embedding.tokens.weight
        nothing = like.new_empty(n_rows, config.kv_heads, 0, config.head_width)
        return DecoderState((KeyValues(nothing, nothing),) * config.n_layers)

    def _lengths(self, source: Tensor) -> Tensor:
        """(B,): tokens of each source, padding not counted."""
        return (source != self.config.pad_id).sum(dim=1)

    def _check(self, *texts: Tensor) -> None:
        """Refuse what is longer than the model was made for."""
        for side, ids in zip(("source", "target"), texts, strict=False):
            if ids.shape[1] > self.config.max_len:
                raise ShapeError(
                    f"the {side} has {ids.shape[1]:,} tokens, but the model reads at most "
                    f"model.max_len={self.config.max_len:,}; take a part of it, or train with a "
                    "larger one"
                )
