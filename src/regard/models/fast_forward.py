"""Deep attention: translators of many LSTM layers with fast-forward connections (Zhou et al. 2016).

The encoder has two columns that begin in opposite directions and never meet. A source word is then
the tops of both, e = W [h; h'; f; f'], two and a half times as wide as a state. The decoder's
lowest layer asks (additive score) and reads the context beside its word; the layers above it know
the context from what is passed upwards. Words are read off the top h alone.

``peepholes`` are the paper's: gates that see the memory c. They are off by default, since no fused
recurrence has them, and a loop over steps is what a GPU waits for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from typing_extensions import override

from regard.functional import masks
from regard.layers.attention import MemoryAttention
from regard.layers.attentive_cell import unroll_attending
from regard.layers.context_cells import ContextLSTM
from regard.layers.dropout import Dropout
from regard.layers.embeddings import readout, word_table
from regard.layers.fast_forward import (
    EqualisedLinear,
    FastForwardStack,
    Passed,
    PeepholeContextLSTM,
)
from regard.layers.key_values import KeyValues, SourceMemory
from regard.layers.recurrence import CellState
from regard.layers.settings import Count
from regard.models.base import SequenceModel
from regard.models.recurrent import RecurrentState
from regard.models.settings import RecurrentWordsConfig


class FastForwardConfig(RecurrentWordsConfig):
    """Stacks of LSTMs with fast-forward connections."""

    family: Literal["fast_forward"] = "fast_forward"
    d_model: Count = Field(512, description="Width of a layer's states; a word is half as wide.")
    score: str = Field("additive", description="How queries are matched with keys.")
    n_layers: Count = Field(9, description="Layers of each of the encoder's two columns.")
    n_decoder_layers: Count = Field(7, description="Layers of the decoder.")
    peepholes: bool = Field(
        False, description="Whether gates see the memory c, as in the paper; steps one by one."
    )

    def problems(self) -> Iterator[str]:
        """Those of any attention, and a word that is half a state."""
        yield from super().problems()
        if self.d_model % 2:
            yield f"d_model={self.d_model} is odd, and a word is half as wide as a state"

    @property
    def d_word(self) -> int:
        """Width of an embedding."""
        return self.d_model // 2

    @property
    def d_memory(self) -> int:
        """Width of what the encoder makes of a word; the paper's 1280 for states of 512."""
        return 5 * self.d_model // 2


class FastForwardEncoder(nn.Module):
    """Source ids to vectors."""

    def __init__(self, config: FastForwardConfig) -> None:
        super().__init__()
        d = config.d_model
        self.tokens = nn.Embedding(config.n_source_vocab, config.d_word)
        self.dropout = Dropout(config.dropout)
        widths = [config.d_word, *[3 * d] * (config.n_layers - 1)]
        self.columns = nn.ModuleList(
            FastForwardStack(widths, d, dropout=config.dropout, peepholes=config.peepholes)
            for _ in range(2)
        )
        self.to_memory = EqualisedLinear(10 * d, config.d_memory)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """ids (B, S), mask (B, S) -> (B, S, d_memory)"""
        words = self.dropout(self.tokens(ids))
        tops = [
            column.interleaved(words, mask, from_the_end=i == 1)  # type: ignore[operator]
            for i, column in enumerate(self.columns)
        ]
        return self.to_memory(torch.cat([*(top.h for top in tops), *(top.f for top in tops)], -1))


class FastForwardDecoder(nn.Module):
    """The lowest layer looks at the source step by step; those above read all steps at once."""

    def __init__(self, config: FastForwardConfig) -> None:
        super().__init__()
        d = config.d_model
        self.tokens = word_table(config.n_target_vocab, config.d_word, tied=config.tied_output)
        self.dropout = Dropout(config.dropout)
        self.cross_attention = MemoryAttention(d, config.d_memory, **config.attention)
        cell = PeepholeContextLSTM if config.peepholes else ContextLSTM
        self.cell = cell(config.d_word, d, config.d_memory)
        self.cell.context = EqualisedLinear(config.d_memory, 4 * d, bias=False)
        for gate in self.cell.state.weight.split(d):
            nn.init.orthogonal_(gate)
        above = [3 * d] * (config.n_decoder_layers - 1)
        self.above = FastForwardStack(above, d, dropout=config.dropout, peepholes=config.peepholes)
        self.to_words, self.to_logits = readout(d, self.tokens, tied=config.tied_output)
        self.state_shape = (config.n_decoder_layers, d)

    def start(self, memory: SourceMemory) -> RecurrentState:
        """Every layer begins with zeros."""
        k = memory.layers[0].k
        h = k.new_zeros(k.shape[0], *self.state_shape)
        return RecurrentState(CellState(h, torch.zeros_like(h)), h[:, 0])

    def project(self, states: Tensor) -> KeyValues:
        """The encoder's vectors (B, S, d_memory) as keys, and as what the cell makes of them."""
        return self.cross_attention.project(states, self.cell.context(states))

    def forward(
        self, ids: Tensor, memory: SourceMemory, state: RecurrentState
    ) -> tuple[Tensor, RecurrentState]:
        """ids (B, T) after ``state`` -> what words are read off (B, T, D), and the new state."""
        read = self.cell.words(self.dropout(self.tokens(ids)))
        lowest, above = state.cell.layers(0, 1), state.cell.layers(1, self.state_shape[0])
        steps = unroll_attending(
            self.cross_attention,
            self.cell,
            read,
            memory.layers[0],
            memory.mask,
            lowest,
            first=state.length,
        )
        passed, after = self.above.upwards(Passed(read + steps.contexts, steps.after), above)
        cells = steps.last.followed_by(after)
        length = state.length + ids.shape[1]
        return self.dropout(self.to_words(passed.h)), RecurrentState(cells, state.fed, length)


class FastForwardTranslator(SequenceModel):
    """Speaks the protocol of ``regard.decoding``: forward, encode, start, step."""

    def __init__(self, config: FastForwardConfig) -> None:
        super().__init__()
        self.config: FastForwardConfig = config
        self.encoder = FastForwardEncoder(config)
        self.decoder: FastForwardDecoder = FastForwardDecoder(config)

    @override
    def encode(self, source: Tensor) -> SourceMemory:
        mask = masks.padding(source, pad=self.config.pad_id)
        encoded = self.encoder(source, mask[:, 0, 0])
        return SourceMemory((self.decoder.project(encoded),), mask)

    @override
    def start(self, memory: SourceMemory) -> RecurrentState:
        return self.decoder.start(memory)
