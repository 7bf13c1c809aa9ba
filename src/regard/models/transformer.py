"""The encoder-decoder Transformer (Vaswani et al. 2017).

Post-norm and sinusoids by default, dropout on the embeddings and on what each sub-layer adds, one
matrix for both embeddings and the output where the vocabulary is shared. Beyond what any block can
be told, ``TransformerConfig`` says what other people's Transformers do otherwise: which encoder
layer a decoder layer looks at and when, a bias of the output, an output matrix of its own,
embeddings as they are, a source id that nobody looks at.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, cast

import torch
from torch import Tensor, nn
from typing_extensions import override

from regard.functional import masks
from regard.functional.packing import PackedMask, Packing
from regard.layers.blocks import DecoderBlock, EncoderBlock, begin_small
from regard.layers.embeddings import token_embedding
from regard.layers.key_values import DecoderState, KeyValues, SourceMemory
from regard.models.base import Output, PackingModel, input_embedding, last_norm, tied
from regard.models.settings import EncoderDecoderConfig, TransformerConfig


class TransformerEncoder(nn.Module):
    """Source ids to vectors."""

    def __init__(self, config: TransformerConfig, tokens: nn.Embedding) -> None:
        super().__init__()
        n = config.n_layers
        self.embedding = input_embedding(config, tokens, scale=_scale(config))
        self.layers = nn.ModuleList(EncoderBlock(config, layer=i, n_layers=n) for i in range(n))
        if not config.norm_first:
            begin_small(self.layers)
        self.norm = last_norm(config)
        self.each = config.memory == "each"

    def forward(self, ids: Tensor, mask: Tensor | PackedMask, first: int | Tensor = 0) -> Tensor:
        """ids (B, S), beginning at position ``first`` or at these positions -> (B, S, D).

        With ``memory: each`` all layers' outputs side by side, (B, S, n_layers · D).
        """
        x = self.embedding(ids, first)
        outputs = []
        for layer in self.layers:
            x = layer(x, mask)
            outputs.append(x)
        return torch.cat([self.norm(y) for y in outputs], dim=-1) if self.each else self.norm(x)


class TransformerDecoder(nn.Module):
    """Target ids and memory to vectors."""

    output_weight: nn.Parameter | None
    output_bias: nn.Parameter | None

    def __init__(self, config: EncoderDecoderConfig, tokens: nn.Embedding) -> None:
        super().__init__()
        n = config.n_layers
        self.embedding = input_embedding(config, tokens, scale=_scale(config))
        self.layers = nn.ModuleList(
            DecoderBlock(config, cross_after=config.cross_after, layer=i, n_layers=n)
            for i in range(n)
        )
        if not config.norm_first:
            begin_small(self.layers)
        self.norm = last_norm(config)
        self.each = config.memory == "each"
        self.d_model, self.pad_id = config.d_model, config.pad_id
        V, D = config.n_target_vocab, config.d_model
        weight = None if config.tied_output else nn.Parameter(torch.randn(V, D) * D**-0.5)
        self.register_parameter("output_weight", weight)
        bias = nn.Parameter(torch.zeros(V)) if config.output_bias else None
        self.register_parameter("output_bias", bias)

    def output(self) -> Output:
        """The output matrix is the embedding, as in the paper, unless it is one of its own."""
        if self.output_weight is None:
            return Output(tied(self.embedding.tokens, self.d_model), self.output_bias)
        return Output(self.output_weight, self.output_bias)

    def project(self, encoded: Tensor) -> tuple[KeyValues, ...]:
        """What the encoder gave -> each layer's keys and values of it."""
        n = len(self.layers)
        read = encoded.chunk(n, dim=-1) if self.each else (encoded,) * n
        layers = zip(cast("Iterable[Any]", self.layers), read, strict=True)
        return tuple(layer.project_source(x) for layer, x in layers)

    def forward(
        self, ids: Tensor, memory: SourceMemory, state: DecoderState, packing: Packing | None = None
    ) -> tuple[Tensor, DecoderState]:
        """ids (B, T) after ``state`` -> (B, T, D) and the state with them in it."""
        mask = None if packing is None else packing.among_targets()
        x = self.embedding(ids, state.length if packing is None else packing.target.positions)
        real, present = ids != self.pad_id, []
        for layer, past, source in zip(self.layers, state.layers, memory.layers, strict=True):
            x, now = layer(x, past, source, memory.mask, mask, real)
            present.append(now)
        return self.norm(x), DecoderState(tuple(present))


class Transformer(PackingModel):
    """Speaks the protocol of ``regard.decoding``: forward, encode, start, step."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config: TransformerConfig = config
        target = token_embedding(config.n_target_vocab, config.d_tokens)
        source = target
        if not config.shared_vocab:
            source = token_embedding(config.n_source_vocab, config.d_tokens)
        self.encoder = TransformerEncoder(config, source)
        self.decoder: TransformerDecoder = TransformerDecoder(config, target)

    @override
    def packed_states(self, source: Tensor, target: Tensor, packing: Packing) -> Tensor:
        encoded = self.encoder(source, packing.among_sources(), packing.source.positions)
        memory = SourceMemory(self.decoder.project(encoded), packing.across())
        return self.decoder(target, memory, self.start(memory), packing)[0]

    @override
    def output(self) -> Output:
        return self.decoder.output()

    @override
    def encode(self, source: Tensor) -> SourceMemory:
        mask = self.source_mask(source)
        return SourceMemory(self.decoder.project(self.encoder(source, mask)), mask)

    def source_mask(self, source: Tensor) -> Tensor:
        """Source ids (B, S) -> (B, 1, 1, S): what may be looked at."""
        mask = masks.padding(source, pad=self.config.pad_id)
        if self.config.hidden_source_id is None:
            return mask
        return mask & masks.padding(source, pad=self.config.hidden_source_id)

    @override
    def start(self, memory: SourceMemory) -> DecoderState:
        return DecoderState(tuple(layer.emptied() for layer in memory.layers))


def _scale(config: EncoderDecoderConfig) -> float:
    return math.sqrt(config.d_tokens) if config.embedding_scale else 1.0
