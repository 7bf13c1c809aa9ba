"""ByteNet (Kalchbrenner et al. 2016): two stacks of dilated convolutions, and no attention.

The decoder stands on the encoder. Source and target are unfolded side by side: a source of |s|
tokens is given room for |t̂| = a|s| + b, the encoder makes a column of each of these places, and
the decoder at step i reads column i added to its last token; beyond |t̂| columns are zeros, and it
goes on until it writes the end token. What the target needs of a place further on must have come
there through the encoder's convolutions, whose reach grows with their dilations 1, 2, 4, 8, 16.

Time and memory are linear in both lengths.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, cast

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn
from typing_extensions import override

from regard.functional.packing import PackedSide, Packing
from regard.layers.dropout import Dropout
from regard.layers.settings import Count, Share
from regard.layers.text_convolutions import DilatedBlock, NormReLU, PastInputs
from regard.models.base import PackingModel
from regard.models.settings import SequenceConfig


class ByteNetConfig(SequenceConfig):
    """Stacks of dilated convolutions, the decoder's on the encoder's."""

    family: Literal["bytenet"] = "bytenet"
    d_model: Count = Field(
        256, description="Width inside a block; between blocks, and of a word, it is twice that."
    )
    n_sets: Count = Field(6, description="How often the dilations are gone through, in each stack.")
    dilations: tuple[Count, ...] = Field(
        (1, 2, 4, 8, 16), min_length=1, description="Of a set: how far apart a kernel's inputs are."
    )
    kernel: Count = Field(3, description="Inputs that a convolution sees.")
    block: Literal["relu", "multiplicative"] = Field(
        "relu", description="Whether a dilated convolution reads a ReLU, or is gated in four parts."
    )
    unfold: tuple[float, float] = Field(
        (1.2, 0.0), description="a and b: a source of s tokens is given a·s + b columns."
    )
    dropout: Share = Field(0.0, description="Share of units dropped.")

    def problems(self) -> Iterator[str]:
        """Columns that would be none, or without end."""
        finite = all(math.isfinite(x) and x >= 0 for x in self.unfold)
        if not finite or not any(self.unfold):
            yield f"unfold={list(self.unfold)}: a source needs some columns, a finite number"

    @property
    def packs(self) -> bool:
        """A convolution sees zeros in place of another text."""
        return True

    @property
    def records(self) -> bool:
        """Many small kernels a layer, and none of them asks the host."""
        return True

    @property
    def compiles_from(self) -> int:
        """Thirty blocks take a minute to compile, and seconds to record."""
        return 5000

    @property
    def packed_width(self) -> None:
        """There is no attention, so any width will do."""
        return None


@dataclass(frozen=True, slots=True)
class SourceColumns:
    """What a decoder stands on."""

    columns: Tensor
    """(B, N, 2D): the encoder's, zeros beyond a row's own a|s| + b."""

    def select(self, rows: Tensor) -> SourceColumns:
        """Rows of the batch by index, in that order."""
        return SourceColumns(self.columns.index_select(0, rows))

    def part(self, first: int, n: int) -> Tensor:
        """(B, n, 2D): n columns from ``first`` on, zeros beyond the last."""
        found = self.columns[:, first : first + n]
        return F.pad(found, (0, 0, 0, n - found.shape[1]))


class UnfoldedTexts(NamedTuple):
    """Where the columns of packed sources lie, which are end to end as well."""

    texts: Tensor
    """(M,): to which text a column belongs; -1 beyond the last."""
    bounds: Tensor
    """(n + 1,): text i has the columns bounds[i]:bounds[i + 1]."""
    ids: Tensor
    """(1, M): the source's tokens, then padding, in each text."""


def unfolded(
    source: Tensor, side: PackedSide, unfold: tuple[float, float], pad_id: int
) -> UnfoldedTexts:
    """Sources (1, N) that lie end to end, given ⌈a n + b⌉ columns each: n is a text's tokens.

    There is room for as many as texts of any lengths can be given.
    """
    (a, b), n_texts = unfold, len(side.bounds) - 1
    lengths = side.bounds.diff()
    given = torch.where(lengths > 0, (lengths.double() * a + b).ceil().long(), 0)
    ends = given.cumsum(dim=0)
    bounds = F.pad(ends, (1, 0))
    at = torch.arange(math.ceil(a * source.shape[1] + (b + 1) * n_texts), device=source.device)
    text = torch.searchsorted(ends, at, right=True)
    real = text < n_texts
    text = text.clamp(max=n_texts - 1)
    position = at - bounds[text]
    has_token = real & (position < lengths[text])
    token = torch.where(has_token, side.bounds[text] + position, 0)
    ids = source.index_select(1, token).masked_fill(~has_token, pad_id)
    return UnfoldedTexts(torch.where(real, text, -1), bounds, ids)


class ByteNetEncoder(nn.Module):
    """Source ids to columns."""

    def __init__(self, config: ByteNetConfig) -> None:
        super().__init__()
        self.tokens = nn.Embedding(config.n_source_vocab, 2 * config.d_model)
        self.dropout = Dropout(config.dropout)
        self.layers = _blocks(config)
        self.unfold, self.pad_id = config.unfold, config.pad_id

    def forward(self, ids: Tensor) -> Tensor:
        """ids (B, S), padded at their ends -> columns (B, ⌈a S + b⌉, 2D).

        A row has as many as its own tokens are given; a convolution reads zeros beyond them, so
        that nothing depends on how long the others are.
        """
        a, b = self.unfold
        n_columns = math.ceil(a * ids.shape[1] + b)
        given = (ids != self.pad_id).sum(dim=1, keepdim=True).double() * a + b
        mask = (torch.arange(n_columns, device=ids.device) < given).unsqueeze(-1)
        return self._columns(F.pad(ids, (0, n_columns - ids.shape[1]), value=self.pad_id), mask)

    def packed(self, ids: Tensor, packing: Packing) -> SourceColumns:
        """Sources (1, N) end to end -> for each target position the column that it reads."""
        columns, target = unfolded(ids, packing.source, self.unfold, self.pad_id), packing.target
        real = (columns.texts >= 0)[None, :, None]
        x = self._columns(columns.ids, real, columns.texts)
        text = target.texts.clamp(min=0)
        at = columns.bounds[text] + target.positions
        there = (target.texts >= 0) & (at < columns.bounds[text + 1])
        found = x.index_select(1, torch.where(there, at, 0))
        return SourceColumns(found.masked_fill(~there[None, :, None], 0.0))

    def _columns(self, ids: Tensor, mask: Tensor, texts: Tensor | None = None) -> Tensor:
        x = self.dropout(self.tokens(ids))
        for layer in cast("Iterable[Any]", self.layers):
            x = layer.centred(x, mask, texts)
        return x.masked_fill(~mask, 0.0)


class ByteNetDecoder(nn.Module):
    """Target ids and the source's columns to vectors."""

    def __init__(self, config: ByteNetConfig) -> None:
        super().__init__()
        d = config.d_model
        self.tokens = nn.Embedding(config.n_target_vocab, 2 * d)
        self.dropout = Dropout(config.dropout)
        self.layers = _blocks(config)
        self.norm = NormReLU(2 * d)
        self.to_logits = nn.Linear(2 * d, config.n_target_vocab)
        self.d_model = d

    def start(self, memory: SourceColumns) -> PastInputs:
        """Zeros before the first token."""
        columns, layers = memory.columns, cast("Iterable[Any]", self.layers)
        pasts = ((layer.convolution.n_past, self.d_model) for layer in layers)
        return PastInputs(tuple(columns.new_zeros(len(columns), *past) for past in pasts))

    def forward(
        self,
        ids: Tensor,
        memory: SourceColumns,
        state: PastInputs,
        texts: Tensor | None = None,
    ) -> tuple[Tensor, PastInputs]:
        """ids (B, T) after ``state`` -> what words are read off (B, T, 2D), and the new state.

        With ``texts`` (T,) ids are a packed row, and columns are those of its positions.
        """
        n = ids.shape[1]
        x, pasts = self.dropout(self.tokens(ids)) + memory.part(state.length, n), []
        layers = cast("Iterable[Any]", self.layers)
        for layer, past in zip(layers, state.layers, strict=True):
            x, now = layer.causal(x, past, texts)
            pasts.append(now)
        return self.norm(x), PastInputs(tuple(pasts), state.length + n)


class ByteNet(PackingModel):
    """Speaks the protocol of ``regard.decoding``: forward, encode, start, step."""

    def __init__(self, config: ByteNetConfig) -> None:
        super().__init__()
        self.config: ByteNetConfig = config
        self.encoder = ByteNetEncoder(config)
        self.decoder: ByteNetDecoder = ByteNetDecoder(config)

    @override
    def encode(self, source: Tensor) -> SourceColumns:
        return SourceColumns(self.encoder(source))

    @override
    def packed_states(self, source: Tensor, target: Tensor, packing: Packing) -> Tensor:
        memory = self.encoder.packed(source, packing)
        return self.decoder(target, memory, self.start(memory), packing.target.texts)[0]

    @override
    def start(self, memory: SourceColumns) -> PastInputs:
        return self.decoder.start(memory)


def _blocks(config: ByteNetConfig) -> nn.ModuleList:
    """All sets of a stack."""
    return nn.ModuleList(
        DilatedBlock(
            config.d_model,
            config.kernel,
            dilation,
            multiplicative=config.block == "multiplicative",
            dropout=config.dropout,
        )
        for _ in range(config.n_sets)
        for dilation in config.dilations
    )
